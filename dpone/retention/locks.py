"""The two locks of a cache: reconcile (one changer at a time) and promotion (shared with loaders).

Promise: each wait is bounded and ends in a typed "busy"; the promotion lock is also taken on the
root directory, where readers without write permission hold their share. Order: reconcile, then
promotion. Source: ADR 0043, step 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dpone.contracts import errors_cache as errors
from dpone.contracts.cache_layout import PROMOTION_LOCK, RECONCILE_LOCK
from dpone.ports.cachefiles import CacheFolder, LockBusy
from dpone.ports.files import FilesError

RECONCILE_WAIT_S = 10.0
PROMOTION_WAIT_S = 30.0


class Locks:
    """The locks of one cache, taken on its open root."""

    def __init__(
        self,
        root: CacheFolder,
        *,
        reconcile_wait_s: float = RECONCILE_WAIT_S,
        promotion_wait_s: float = PROMOTION_WAIT_S,
    ) -> None:
        self.root = root
        self.reconcile_wait_s = reconcile_wait_s
        self.promotion_wait_s = promotion_wait_s
        self._is_held = False

    @contextmanager
    def reconcile(self) -> Iterator[None]:
        """Hold the reconcile lock. Raises `ReconcileLockBusy`."""
        with ExitStack() as held:
            try:
                held.enter_context(self.root.lock(RECONCILE_LOCK, self.reconcile_wait_s))
            except LockBusy:
                raise errors.ReconcileLockBusy(wait_s=f"{self.reconcile_wait_s:g}") from None
            except FilesError as error:
                raise errors.ReconcileLockFailed(reason=error.reason) from error
            yield

    @contextmanager
    def promotion(self) -> Iterator[None]:
        """Hold the promotion lock alone; within a hold of ours it is the same hold.

        Raises `PromotionLockBusy`.
        """
        if self._is_held:
            yield
            return
        with ExitStack() as held:
            try:
                held.enter_context(self.root.lock(PROMOTION_LOCK, self.promotion_wait_s))
                held.enter_context(self.root.lock(".", self.promotion_wait_s))
            except LockBusy:
                raise errors.PromotionLockBusy(wait_s=f"{self.promotion_wait_s:g}") from None
            except FilesError as error:
                raise errors.PromotionLockFailed(reason=error.reason) from error
            self._is_held = True
            held.callback(setattr, self, "_is_held", False)
            yield
