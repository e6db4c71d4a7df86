"""Harbor, Terminal-Bench 1 and InterCode files: fields, defaults, quirks, errors with a name."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.errors import TaskError
from envs.terminal.formats import harbor, intercode, terminal_bench
from envs.terminal.formats.record import unknown_keys

FULL = """
schema_version = "1.3"
multi_step_reward_strategy = "final"
artifacts = ["/logs/artifacts", {source = "/app/out", destination = "out", exclude = ["*.o"]}]
[task]
name = "org/thing"
[metadata]
difficulty = "hard"
anything = {goes = [1, "x"]}
[verifier]
timeout_sec = 900
env = {KEY = "${KEY}"}
user = 0
[verifier.environment]
cpus = 2
[[verifier.collect]]
command = "pg_dump > /logs/artifacts/db.sql"
service = "db"
[agent]
timeout_sec = 1800.5
user = "agent"
network_mode = "allowlist"
allowed_hosts = ["PyPI.org.", "*.debian.org", "10.0.0.0/8", "::1"]
[environment]
build_timeout_sec = 300
docker_image = "org/image:1"
os = "Linux"
cpus = 1.5
memory_mb = 4096
storage_mb = 8192
gpus = 1
gpu_types = ["H100"]
skills_dir = "/skills"
workdir = "/app"
network_mode = "no-network"
mcp_servers = [{name = "a", transport = "http", url = "http://a"}]
[environment.healthcheck]
command = "true"
[solution]
env = {A = "b"}
[[steps]]
name = "one"
min_reward = 0.5
agent = {timeout_sec = 60}
[[steps]]
name = "two"
min_reward = {reward = 1.0}
artifacts = ["/app/two"]
"""


def test_every_harbor_field_is_read() -> None:
    config = harbor.parse_config(FULL)
    assert unknown_keys(config) == ()
    assert [a.source for a in config.artifacts] == ["/logs/artifacts", "/app/out"]
    assert config.verifier.mode == "separate"
    assert config.verifier.collect[0].service == "db"
    assert config.verifier.collect[0].timeout_sec == 60
    assert config.agent.allowed_hosts == ("pypi.org", "*.debian.org", "10.0.0.0/8", "::1")
    environment = config.environment
    assert (environment.os, environment.cpus, environment.memory_mb) == ("linux", 1.5, 4096)
    assert environment.mcp_servers[0].transport == "streamable-http"
    check = environment.healthcheck
    assert check is not None
    assert (check.interval_sec, check.timeout_sec, check.retries) == (5, 30, 3)
    assert (check.start_period_sec, check.start_interval_sec) == (0, 5)
    assert [step.min_reward for step in config.steps] == [0.5, {"reward": 1.0}]


def test_harbor_defaults_are_the_official_ones() -> None:
    config = harbor.parse_config("")
    assert config.schema_version == "1.4"
    assert config.verifier.timeout_sec == 600
    assert config.verifier.mode is None
    assert config.agent.timeout_sec is None
    environment = config.environment
    assert (environment.build_timeout_sec, environment.network_mode) == (600, "public")
    assert (environment.cpus, environment.memory_mb, environment.storage_mb) == (None, None, None)


def test_legacy_keys_are_read_as_officially() -> None:
    old = harbor.parse_config(
        'version = "1.0"\n[environment]\nmemory = "2G"\nstorage = "512M"\nallow_internet = false'
    )
    assert old.schema_version == "1.0"
    assert (old.environment.memory_mb, old.environment.storage_mb) == (2048, 512)
    assert old.environment.network_mode == "no-network"
    stated = harbor.parse_config(
        '[environment]\nallow_internet = false\nnetwork_mode = "public"'
    ).environment
    assert stated.network_mode == "public"
    asked = harbor.parse_config('[environment]\nallow_internet = "no"').environment
    assert asked.network_mode == "no-network"


def test_unknown_keys_are_kept_and_named() -> None:
    """Bug prevented: a misspelt limit that nobody sees, or a newer task that does not load."""
    config = harbor.parse_config("x = 1\n[agent]\ntimeout = 3\n[[steps]]\nname = 'a'\nzz = 1")
    assert unknown_keys(config) == ("agent.timeout", "steps.0.zz", "x")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[agent", "no TOML"),
        ("[agent]\ntimeout_sec = 'soon'", "agent.timeout_sec"),
        ("[agent]\ntimeout_sec = nan", "agent.timeout_sec"),
        ("[environment]\nmemory = '2X'", "environment: size '2X'"),
        ("[environment]\nmemory = '2G'\nmemory_mb = 1000", "is not memory_mb"),
        ("[environment]\nnetwork_mode = 'some'", "environment.network_mode"),
        ("[environment]\nallowed_hosts = ['a.b']", "allowed_hosts needs"),
        ("[environment]\nallow_internet = 'some'", "environment: allow_internet"),
        ("[environment]\nos = 'beos'", "environment.os"),
        ("[agent]\nallowed_hosts = []", "allowed_hosts needs"),
        ("[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['http://a']", "allowed_hosts.0"),
        ("[agent]\nnetwork_mode = 'allowlist'\nallowed_hosts = ['*.1.2.3.4']", "allowed_hosts.0"),
        ("[verifier]\nenvironment_mode = 'shared'\n[verifier.environment]", "verifier"),
        ("[[verifier.collect]]\nservice = 'db'", "verifier.collect.0.command"),
        ("[[steps]]\nname = '../x'", "steps.0.name"),
        ("[[steps]]\nname = 'con'", "steps.0.name"),
        ("[[steps]]\nname = 'A'\n[[steps]]\nname = 'a'", "two steps"),
        ("artifacts = ['/a/../b']", "artifacts.0"),
        ("artifacts = [{source = '/a', destination = '/b'}]", "artifacts.0"),
        ("artifacts = [{source = 'a', service = 'db'}]", "must be absolute"),
        ("[[environment.mcp_servers]]\nname = 'a'", "needs 'url'"),
        ("[[environment.mcp_servers]]\nname = 'a'\ntransport = 'stdio'", "needs 'command'"),
        ("[task]\nname = 'noslash'", "task.name"),
        ("multi_step_reward_strategy = 'best'", "multi_step_reward_strategy"),
    ],
)
def test_harbor_mistakes_name_file_and_key(text: str, key: str) -> None:
    with pytest.raises(TaskError, match=r"^here/task\.toml: ") as caught:
        harbor.parse_config(text, "here/task.toml")
    assert key in str(caught.value)


@given(st.floats(0.001, 1000), st.sampled_from("GMKgmk"), st.sampled_from(["", " ", "\t"]))
def test_sizes_are_rounded_down_in_mb(number: float, unit: str, space: str) -> None:
    factor = {"G": 1024, "M": 1, "K": 1 / 1024}[unit.upper()]
    assert harbor.size_mb(f"{space}{number}{unit}{space}") == int(number * factor)


@given(st.text(max_size=40))
def test_any_host_is_refused_or_stable(entry: str) -> None:
    """Bug prevented: a normal form that is read differently the second time."""
    try:
        host = harbor.allowed_host(entry)
    except ValueError:
        return
    assert harbor.allowed_host(host) == host
    assert not set(host) & set(" @?#\\")


@given(st.text(max_size=200))
def test_any_text_is_a_record_or_a_task_error(text: str) -> None:
    for parse in (
        harbor.parse_config,
        terminal_bench.parse_config,
        terminal_bench.parse_compose,
        terminal_bench.parse_solution,
        lambda text: intercode.parse_rows(text, "bash"),
    ):
        with suppress(TaskError):
            parse(text)


def test_the_canary_is_not_shown_to_the_agent() -> None:
    text = "<!-- CANARY x -->\n# canary y\n\n\n# Title\n# canary stays here\n"
    assert harbor.without_canary(text) == "# Title\n# canary stays here\n"
    assert harbor.without_canary("\nplain") == "plain"


def test_a_harbor_directory_without_instruction_is_named(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text("")
    with pytest.raises(TaskError, match=r"instruction\.md cannot be read"):
        harbor.read_task(tmp_path)


# ----------------------------------------------------------------- Terminal-Bench 1


def test_terminal_bench_defaults_are_the_official_ones() -> None:
    config = terminal_bench.parse_config("instruction: Do.\ndifficulty: medium\n")
    assert config.model_dump() == {
        "instruction": "Do.",
        "author_name": "unknown",
        "author_email": "unknown",
        "difficulty": "medium",
        "category": "software_engineering",
        "tags": (),
        "parser_name": "pytest",
        "max_agent_timeout_sec": 360.0,
        "max_test_timeout_sec": 60.0,
        "run_tests_in_same_shell": False,
        "disable_asciinema": False,
        "estimated_duration_sec": None,
        "expert_time_estimate_min": None,
        "junior_time_estimate_min": None,
    }


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("difficulty: easy", "instruction"),
        ("instruction: x", "difficulty"),
        ("instruction: x\ndifficulty: so so", "difficulty"),
        ("instruction: x\ndifficulty: easy\nparser_name: unittest", "parser_name"),
        ("instruction: x\ndifficulty: easy\nmax_test_timeout_sec: .nan", "max_test_timeout_sec"),
        ("- a", "the whole"),
        ("a: [", "no YAML"),
        ("!!python/object:os.system x", "no YAML"),
    ],
)
def test_terminal_bench_mistakes_name_file_and_key(text: str, key: str) -> None:
    with pytest.raises(TaskError, match=r"^here/task\.yaml: ") as caught:
        terminal_bench.parse_config(text, "here/task.yaml")
    assert key in str(caught.value)


def test_keystrokes_have_the_official_defaults() -> None:
    first, second = terminal_bench.parse_solution(
        "- command: ls\n- command: q\n  block: true\n  append_enter: false\n  max_timeout_sec: 5\n"
    )
    assert (first.min_timeout_sec, first.max_timeout_sec) == (0, 180)
    assert (first.block, first.append_enter) == (False, True)
    assert (second.block, second.append_enter, second.max_timeout_sec) == (True, False, 5)
    with pytest.raises(TaskError, match=r"solution\.yaml, item 1: command"):
        terminal_bench.parse_solution("- block: true")


def test_compose_variables_are_filled_in() -> None:
    known = {"T_BENCH_TEST_DIR": "/tests", "EMPTY": ""}
    fill = terminal_bench.interpolate
    assert fill("a $T_BENCH_TEST_DIR ${T_BENCH_TEST_DIR} $$HOME", known) == "a /tests /tests $HOME"
    assert fill("${NO:-x}${NO-y}${EMPTY:-z}${EMPTY-w}", known) == "xyz"
    with pytest.raises(TaskError, match="NO"):
        fill("${NO}", known)
    with pytest.raises(TaskError, match="only defaults"):
        fill("${NO:?needed}", known)


@given(st.text(alphabet=st.characters(exclude_characters="$")))
def test_text_without_variables_is_left_alone(text: str) -> None:
    assert terminal_bench.interpolate(text, {}) == text
    assert terminal_bench.interpolate(text + "$$", {}) == text + "$"


# ----------------------------------------------------------------- InterCode


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("bash", {"query": "q", "gold": "ls"}),
        ("sql", {"db": "d", "query": "q", "gold": "g", "hardness": "easy", "db_tables": ["t"]}),
        (
            "python",
            {"query": "q", "gold": "g", "tests": ["a"], "task_id": 1, "test_setup_code": ""},
        ),
        ("ctf", {"task_id": 1, "query": "q", "gold": "f", "source": "s", "tags": ["t"]}),
    ],
)
def test_intercode_rows_are_read_from_lists_and_lines(
    kind: intercode.Kind, row: dict[str, Any]
) -> None:
    from_list = intercode.parse_rows(json.dumps([row, row]), kind)
    from_lines = intercode.parse_rows(f"{json.dumps(row)}\n\n{json.dumps(row)}\n", kind)
    assert from_list == from_lines
    assert from_list[0].model_dump(mode="json") == row
    assert unknown_keys(from_list[0]) == ()
    with pytest.raises(TaskError, match=r"f.json, record 2: query"):
        intercode.parse_rows(json.dumps([row, {**row, "query": 3}]), kind, "f.json")
