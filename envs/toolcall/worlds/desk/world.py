"""Files and tickets in a conversation: each tool a method, each broken rule noted."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from envs.toolcall.tools import Tool
from envs.toolcall.values import plain
from envs.toolcall.world import ToolError
from envs.toolcall.worlds.desk.records import Desk, File, Ticket, draw_desk
from envs.toolcall.worlds.desk.schemas import POLICY, TOOLS
from envs.toolcall.worlds.methods import MethodWorld, found


class DeskWorld(MethodWorld):
    """See the module and ``envs.toolcall.world.World``."""

    policy = POLICY
    tools: Mapping[str, Tool] = TOOLS

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        super().__init__()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "DeskWorld":
        """Build it from a task's data. Raises ``KeyError``, ``ValueError``."""
        return cls(draw_desk(int(data["seed"]), bool(data["held"])))

    def state(self) -> Mapping[str, object]:
        """Return every file by path and every ticket by id."""
        return {**self.desk.files, **self.desk.tickets}

    # ------------------------------------------------------------- files

    def _whoami(self) -> Any:
        return {"name": self.desk.user}

    def _list_people(self) -> Any:
        return list(self.desk.people)

    def _list_folder(self, folder: str) -> Any:
        return sorted(path for path in self.desk.files if path.startswith(folder.rstrip("/") + "/"))

    def _find_files(self, word: str) -> Any:
        files = self.desk.files.values()
        return sorted(f.path for f in files if plain(word) in plain(f"{f.path} {f.text}"))

    def _read_file(self, path: str) -> Any:
        return asdict(self._file(path))

    def _write_file(self, path: str, text: str) -> Any:
        if path in self.desk.files:
            self._own(path).text = plain(text)
        else:
            self.desk.files[path] = File(path, self.desk.user, plain(text))
        return {"status": "written"}

    def _append_line(self, path: str, line: str) -> Any:
        file = self._own(path)
        file.text = f"{file.text}\n{plain(line)}"
        return {"status": "added"}

    def _copy_file(self, path: str, to: str) -> Any:
        text = self._file(path).text
        self._free(to)
        self.desk.files[to] = File(to, self.desk.user, text)
        return {"status": "copied"}

    def _move_file(self, path: str, to: str) -> Any:
        file = self._own(path)
        self._free(to)
        self._rule(not self._referring(path), "keep_files_of_tickets")
        del self.desk.files[path]
        file.path = to
        self.desk.files[to] = file
        return {"status": "moved"}

    def _delete_file(self, path: str) -> Any:
        self._own(path)
        self._rule(not self._referring(path), "keep_files_of_tickets")
        del self.desk.files[path]
        return {"status": "deleted"}

    def _share_file(self, path: str, person: str) -> Any:
        file = self._file(path)
        self._rule(file.owner == self.desk.user, "share_own_files")
        file.shared_with = sorted({*file.shared_with, self._person(person)})
        return {"shared_with": file.shared_with}

    # ------------------------------------------------------------- tickets

    def _list_tickets(self, status: str) -> Any:
        return [_short(each) for each in self.desk.tickets.values() if each.status == status]

    def _my_tickets(self) -> Any:
        return [_short(each) for each in self.desk.tickets.values() if self._is_mine(each)]

    def _search_tickets(self, words: str) -> Any:
        wanted = plain(words).split()
        tickets = self.desk.tickets.values()
        return [_short(each) for each in tickets if all(w in plain(each.title) for w in wanted)]

    def _get_ticket(self, ticket_id: str) -> Any:
        return asdict(self._ticket(ticket_id))

    def _create_ticket(self, title: str, label: str, priority: str) -> Any:
        key = f"T-{1 + max(int(each[2:]) for each in self.desk.tickets)}"
        self._rule(priority != "high" or label == "outage", "high_is_for_outages")
        user = self.desk.user
        self.desk.tickets[key] = Ticket(key, plain(title), user, user, label, priority)
        return {"ticket_id": key}

    def _assign_ticket(self, ticket_id: str, person: str) -> Any:
        ticket, name = self._mine(ticket_id), self._person(person)
        ticket.assignee = name
        return {"assignee": name}

    def _set_priority(self, ticket_id: str, priority: str) -> Any:
        ticket = self._mine(ticket_id)
        self._rule(priority != "high" or ticket.label == "outage", "high_is_for_outages")
        ticket.priority = priority
        return {"priority": priority}

    def _set_label(self, ticket_id: str, label: str) -> Any:
        self._mine(ticket_id).label = label
        return {"label": label}

    def _close_ticket(self, ticket_id: str) -> Any:
        ticket = self._mine(ticket_id)
        if ticket.status == "closed":
            raise ToolError(f"{ticket_id} is closed already")
        self._rule(not self._waits(ticket), "close_unblocked")
        ticket.status = "closed"
        return {"status": "closed"}

    def _reopen_ticket(self, ticket_id: str) -> Any:
        ticket = self._mine(ticket_id)
        if ticket.status == "open":
            raise ToolError(f"{ticket_id} is open already")
        ticket.status = "open"
        return {"status": "open"}

    def _comment(self, ticket_id: str, text: str) -> Any:
        self._ticket(ticket_id).comments.append(plain(text))
        return {"status": "commented"}

    def _attach_file(self, ticket_id: str, path: str) -> Any:
        self._file(path)
        ticket = self._mine(ticket_id)
        ticket.files = sorted({*ticket.files, path})
        return {"files": ticket.files}

    # ------------------------------------------------------------- inside

    def _file(self, path: str) -> File:
        return found(self.desk.files, path, "file")

    def _own(self, path: str) -> File:
        file, user = self._file(path), self.desk.user
        self._rule(user == file.owner or user in file.shared_with, "change_own_files")
        return file

    def _free(self, path: str) -> None:
        if path in self.desk.files:
            raise ToolError(f"there is a file {path} already")

    def _referring(self, path: str) -> list[str]:
        tickets = self.desk.tickets.values()
        return [each.id for each in tickets if each.status == "open" and path in each.files]

    def _ticket(self, key: str) -> Ticket:
        return found(self.desk.tickets, key, "ticket")

    def _is_mine(self, ticket: Ticket) -> bool:
        return self.desk.user in (ticket.reporter, ticket.assignee)

    def _mine(self, key: str) -> Ticket:
        ticket = self._ticket(key)
        self._rule(self._is_mine(ticket), "change_own_tickets")
        return ticket

    def _waits(self, ticket: Ticket) -> bool:
        other = self.desk.tickets.get(ticket.blocked_by)
        return other is not None and other.status == "open"

    def _person(self, name: str) -> str:
        for known in self.desk.people:
            if plain(known) == plain(name):
                return known
        raise ToolError("nobody of that name is in the team")


def _short(ticket: Ticket) -> dict[str, Any]:
    row = {"ticket_id": ticket.id, "title": ticket.title, "status": ticket.status}
    return {**row, "assignee": ticket.assignee}
