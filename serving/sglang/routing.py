"""Which server a prompt goes to: the one that has computed the most of it.

A session's next turn starts with its last one, and the members of a group start alike, so a small
table remembers which server saw which beginning, block by block. A prompt known for at least half
of its length goes where it is known; any other goes to the least busy server. A shared system
prompt alone thus does not draw all users to one server, and a server far busier than another gets
no more than it must.
"""

from collections import OrderedDict
from collections.abc import Sequence

BLOCK = 32  # tokens
MOST_BLOCKS = 1 << 17
FAR_BUSIER = 8  # requests more than twice the least busy server's


class PrefixTable:
    """Remembers where beginnings of prompts were computed. Servers are numbers."""

    def __init__(self) -> None:
        self._seen: OrderedDict[int, int] = OrderedDict()

    def place(self, ids: Sequence[int], num_running: dict[int, int]) -> int:
        """Choose a server for a prompt and remember it.

        Args:
            ids: the prompt.
            num_running: requests at each server that may be chosen; not empty.
        """
        chain = _chain(ids)
        known, best = 0, -1
        for depth, block in enumerate(chain, 1):
            server = self._seen.get(block)
            if server in num_running:
                known, best = depth, server
        least = min(num_running.values())
        idle = [server for server, running in num_running.items() if running == least]
        chosen = idle[(chain[-1] if chain else 0) % len(idle)]
        if known * 2 >= len(chain) > 0 and num_running[best] <= 2 * least + FAR_BUSIER:
            chosen = best
        for block in chain:
            self._seen[block] = chosen
            self._seen.move_to_end(block)
        while len(self._seen) > MOST_BLOCKS:
            self._seen.popitem(last=False)
        return chosen

    def forget(self, server: int) -> None:
        """A server's cache is gone."""
        for block in [block for block, at in self._seen.items() if at == server]:
            del self._seen[block]


def _chain(ids: Sequence[int]) -> list[int]:
    """Hashes of the prompt's whole blocks, each with all before it; a short prompt is one block."""
    ends = range(BLOCK, len(ids) + 1, BLOCK) if len(ids) >= BLOCK else [len(ids)]
    chain, so_far = [], 0
    for end in ends:
        so_far = hash((so_far, *ids[max(end - BLOCK, 0) : end]))
        chain.append(so_far)
    return chain
