"""The scripted oracle: a solver for each page it knows. See ``envs.browser.miniwob.play``."""

from envs.browser.miniwob.solvers.clicks import TABLE as CLICKS
from envs.browser.miniwob.solvers.drags import TABLE as DRAGS
from envs.browser.miniwob.solvers.fields import TABLE as FIELDS
from envs.browser.miniwob.solvers.reading import TABLE as READING
from envs.browser.miniwob.solvers.sites import TABLE as SITES
from envs.browser.miniwob.solvers.table import Entry

SOLVERS: dict[str, Entry] = {
    name: entry
    for table in (CLICKS, DRAGS, FIELDS, READING, SITES)
    for name, entry in table.entries.items()
}
