"""What the generated files say is what their published contracts say."""

from __future__ import annotations

from typing import Any

from dpone.adapters.yamlfile.documents import YamlDocuments
from dpone.adapters.yamlfile.reading import parse
from dpone.contracts.catalog import (
    Dag,
    DomainCatalog,
    DomainOwnership,
    Owner,
    WorkloadSet,
    catalog_document,
    set_document,
)
from dpone.contracts.codec import convert


def generated(value: Any) -> Any:
    return parse(YamlDocuments().render(value).decode(), "x.yaml").value


def test_an_ownership_file_fits_its_contract() -> None:
    value = generated(Owner(team="t", contact="c", approver_team="a").document("crm"))
    found = convert(value, DomainOwnership)
    assert (found.domain, found.owner.team, found.approvers.github_team) == ("crm", "t", "a")


def test_a_workload_set_fits_its_contract() -> None:
    assert convert(generated(set_document()), WorkloadSet).catalogs == ("domains/*.yaml",)


def test_a_catalog_with_a_dag_fits_its_contract() -> None:
    value: Any = dict(catalog_document("crm"))  # type: ignore[arg-type]
    value["workloads"] = {"orders": {"manifest": "workloads/crm/orders.yaml", "owner": "me"}}
    value["dags"] = {"daily": Dag(dag_id="daily", workloads=("orders",)).entry()}
    found = convert(value | {"workloads": value["workloads"]}, DomainCatalog)
    assert found.dags["daily"].workloads == ("orders",)
    assert found.dags["daily"].default_args.retries == 2
