"""A queue in which tenants take turns, and within a tenant the kinds of item. Each kind is first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """First in, first out within one kind of one tenant. The tenant and kind just served go to the back."""

    def __init__(self) -> None:
        self._tenants: dict[str, dict[Hashable, deque[T]]] = {}  # tenants, and the kinds of each, in order of turns
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, tenant: str, kind: Hashable, item: T) -> None:
        """Add an item at the end of its line."""
        self._tenants.setdefault(tenant, {}).setdefault(kind, deque()).append(item)
        self._count += 1

    def head(self) -> T | None:
        """Return the next item; None if the queue is empty."""
        for kinds in self._tenants.values():
            for line in kinds.values():
                return line[0]
        return None

    def pop(self) -> T:
        """Take the next item. Raises: IndexError if the queue is empty."""
        for tenant, kinds in self._tenants.items():
            for kind, line in kinds.items():
                item = line.popleft()
                self._count -= 1
                del self._tenants[tenant], kinds[kind]
                if line:
                    kinds[kind] = line
                if kinds:
                    self._tenants[tenant] = kinds
                return item
        raise IndexError("the queue is empty")

    def remove(self, tenant: str, kind: Hashable, item: T) -> None:
        """Remove an item, if it is in the queue; the other items keep their order."""
        kinds = self._tenants.get(tenant, {})
        line = kinds.get(kind)
        if line is None or item not in line:
            return
        line.remove(item)
        self._count -= 1
        if not line:
            del kinds[kind]
        if not kinds:
            del self._tenants[tenant]
