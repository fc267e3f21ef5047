"""Who is next among the classes: deficit round robin over measured work. Pure.

A class that works goes into debt for what it took, since nobody knows beforehand what a step costs. A round
pays every class `weight` seconds of debt for each second of the round; a class without debt may go. Rounds are
computed rather than walked: they last just until some waiting class is free of debt. Debt outlives the queue,
so a class that leaves after each long step cannot come back as if it had taken nothing, and no class saves up
credit while it does not want to work.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from actors.gpu_lease.messages import LeaseClass


class Shares:
    """Debts of the classes, in seconds of work."""

    def __init__(self, weights: Mapping[LeaseClass, float]) -> None:
        if not weights or min(weights.values()) <= 0:
            raise ValueError("every class needs a weight above zero")
        self._weights = dict(weights)
        self._order: list[LeaseClass] = list(self._weights)
        self._debts: dict[LeaseClass, float] = dict.fromkeys(self._order, 0.0)

    def charge(self, lease_class: LeaseClass, worked_s: float) -> None:
        """Book work that others had to wait for."""
        self._debts[lease_class] += worked_s

    def pass_alone(self, lease_class: LeaseClass, seconds: float) -> None:
        """Time in which nobody else waited: free for the class itself, and the others' debts are paid off by it."""
        own = self._debts[lease_class]
        self._round(seconds / self._weights[lease_class])
        self._debts[lease_class] = own

    def pick(self, waiting: Collection[LeaseClass]) -> LeaseClass:
        """The class to serve next; the turn moves behind it.

        Raises:
            ValueError: nobody waits.
        """
        self._round(min(self._debts[name] / self._weights[name] for name in waiting))
        # Rounding errors must not keep the class that ended the round from being the one that is served.
        candidates: list[LeaseClass] = [name for name in self._order if name in waiting]
        name = min(candidates, key=lambda candidate: self._debts[candidate] > 1e-9)
        self._debts[name] = max(self._debts[name], 0.0)
        self._order.remove(name)
        self._order.append(name)
        return name

    def debt(self, lease_class: LeaseClass) -> float:
        """Seconds the class has taken beyond its share."""
        return self._debts[lease_class]

    def _round(self, length: float) -> None:
        for name, debt in self._debts.items():
            self._debts[name] = max(0.0, debt - length * self._weights[name])
