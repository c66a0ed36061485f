"""`region_votes`: judges points and boxes by the group's agreement, without a true box.

The place on which most answers agree may be wrong. Use this for screens without true boxes, and watch held-out
`success`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import Components

from .boxes import Box, answered_box, answered_point

MAX_CELLS = 2**22


class RegionVotes(Reward):
    """Outcome component `region_votes`, 0 to 1: the share of the group that points at the same place as an episode.

    Every answer is a region (for a point, the square around it) and gives one vote to each position inside it. The
    reward of a region is its mean number of votes, divided by the largest number of votes at any position. An episode
    without an answer gets 0; with fewer than two answers in the group, all get 0. Votes are counted exactly: the edges
    of all regions cut the plane into cells of equal votes.
    Source: GUI-RCPO, Du et al. 2025, arXiv:2508.05615, section 3.

    Args:
        side: side of the square around a point, in pixels.
    """

    def __init__(self, side: float = 50.0) -> None:
        if not side > 0:
            raise ValueError(f"side = {side} is not valid: the square around a point must have a side above 0 pixels.")
        self.side = side

    def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        regions = [self.region(episode) for episode in episodes]
        answered = [region for region in regions if region is not None]
        if len(answered) < 2:
            return [{"region_votes": 0.0} for _ in episodes]
        shares = iter(densities(answered))
        return [{"region_votes": 0.0 if region is None else next(shares)} for region in regions]

    def region(self, episode: Trajectory) -> Box | None:
        """Return the region that an episode votes for; None without an answer."""
        box, point = answered_box(episode), answered_point(episode)
        if box is not None or point is None:
            return box
        half = self.side / 2
        return point[0] - half, point[1] - half, point[0] + half, point[1] + half


def densities(regions: Sequence[Box]) -> list[float]:
    """Return each region's mean votes divided by the largest number of votes anywhere, above 0 and at most 1."""
    votes, widths, heights, spans = _cells(regions)
    max_votes = votes.max()
    areas = heights[:, None] * widths[None, :]
    shares = []
    for left, top, right, bottom in spans:
        own_areas = areas[top:bottom, left:right]
        shares.append(float((votes[top:bottom, left:right] * own_areas).sum() / own_areas.sum() / max_votes))
    return shares


def consensus(regions: Sequence[Box]) -> Box:
    """Return the cell with the most votes, of several the largest. A cell is a rectangle between neighbouring edges.

    Source: GUI-RC, in the paper above, uses the whole connected region with the most votes.
    """
    votes, widths, heights, _ = _cells(regions)
    xs, ys = _edges(regions)
    areas = np.where(votes == votes.max(), heights[:, None] * widths[None, :], 0.0)
    row, column = np.unravel_index(int(areas.argmax()), areas.shape)
    return float(xs[column]), float(ys[row]), float(xs[column + 1]), float(ys[row + 1])


def _edges(regions: Sequence[Box]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    sides = np.array(regions, np.float64)
    return np.unique(sides[:, [0, 2]]), np.unique(sides[:, [1, 3]])


def _cells(
    regions: Sequence[Box],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], list[tuple[int, int, int, int]]]:
    """Return the votes per cell [rows, columns], the cells' widths and heights, and each region's cells.

    Raises: JudgeError if there are too many cells.
    """
    xs, ys = _edges(regions)
    if len(xs) * len(ys) > MAX_CELLS:
        raise JudgeError(f"{len(regions)} regions divide the screen into too many cells. Vote in smaller groups.")
    votes = np.zeros((len(ys) - 1, len(xs) - 1), np.int64)
    spans = []
    for left, top, right, bottom in regions:
        a, b = np.searchsorted(xs, (left, right))
        c, d = np.searchsorted(ys, (top, bottom))
        votes[c:d, a:b] += 1
        spans.append((int(a), int(c), int(b), int(d)))
    return votes, np.diff(xs), np.diff(ys), spans
