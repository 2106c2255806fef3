"""Whether an operation has room, found out before it begins.

Source: ADR 0043.
"""

from __future__ import annotations

from dpone.contracts.cache_layout import ENTRIES_MAX
from dpone.contracts.errors_retention_apply import CapacityExhausted
from dpone.contracts.retention_receipt import RECEIPT_BYTES_MAX, Receipt, final_bytes_max
from dpone.retention.receipts import FILES_MAX, TOTAL_BYTES_MAX, Receipts


def check_capacity(receipt: Receipt, store: Receipts, live: int) -> None:
    """Refuse what could not be written to its end. Raises `CapacityExhausted`."""
    size = final_bytes_max(receipt)
    if size > RECEIPT_BYTES_MAX:
        raise CapacityExhausted(reason=f"its receipt could grow over {RECEIPT_BYTES_MAX} bytes")
    if store.count + 1 > FILES_MAX:
        raise CapacityExhausted(reason=f"there are {store.count} receipts")
    if store.bytes + size > TOTAL_BYTES_MAX:
        raise CapacityExhausted(reason=f"the receipts hold {store.bytes} bytes")
    if len(receipt.pending) + live > ENTRIES_MAX:
        raise CapacityExhausted(reason=f"the log holds {live} transactions")
