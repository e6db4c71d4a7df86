"""Measure a model: ``python -m benchmarks.run suite=chat model=smollm2-135m n=20 k=5``.

See ``USAGE``. Exit 0 done, 1 failed, 2 wrong use, 3 something is not here (Docker, an image, the
model), 130 interrupted with everything played so far saved.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before anything imports torch

import logging
import signal
import sys
from collections.abc import Sequence

from benchmarks.run.settings import parse
from envs.words import UsageError

USAGE = """\
python -m benchmarks.run suite=NAME|FILE.jsonl|DIR model=URL|NAME|FOLDER [key=value…]
python -m benchmarks.run resume=FOLDER

  suite         an environment (terminal, swe, chat, …), a task set in a .jsonl file, or a directory
                of public tasks (Harbor, Terminal-Bench)
  model         the base URL of an OpenAI-compatible server, or a model to be served for this run:
                smollm2-135m, a folder in Hugging Face layout, a hub id
  name          what the model is called in results; default: its own name
  key_env       CLAWGYM_API_KEY: variable that holds the URL's key
  serving.KEY   option of python -m serving for a model served here, such as serving.threads=1

  split         heldout, or train
  levels, families  a list, such as levels=[easy,hard]; default: all
  base          image that stands in where a public task's FROM cannot be had; the result says so
  n             0: most tasks, drawn by seed; 0 is all
  k             1: samples per task
  seed          0: of the draw, the worlds and the sampling
  temperature   1.0
  max_reply_tokens  256
  max_steps     0: actions per episode, 0 is what the task says
  max_parse_errors  3: replies without an action in a row that end an episode
  time_limit_s  300: of an episode's commands, where the task states none for its agent
  reply_timeout_s   300: longest wait for one reply
  reply_format  plain: the reply is the command; fenced: one fenced block is
  finish        submit: the agent says when it is done; solved: it ends once solved

  workers       2: Ray workers; 0 plays in this process, without Ray
  episodes_per_worker  8
  retries       2: new tries at an episode that the machine lost; retry_wait_s 1.0 before the first
  ray.address   of a cluster; default: a Ray of this machine
  out           runs/bench-<suite>-<time>
  resume        go on with a run; model's URL, workers and the like may be given anew

Writes run.json, episodes.jsonl, summary.json, report.md, report.png, predictions.jsonl (release
tasks of swe) and harbor/ there. Episodes the machine lost are named and in no denominator.
Exit 0 done, 1 failed, 2 wrong use, 3 something is not here, 130 interrupted and saved.
"""

log = logging.getLogger("benchmarks.run")


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit status."""
    if not arguments or any(word in ("-h", "--help") for word in arguments):
        print(USAGE, end="")
        return 0 if arguments else 2
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    from benchmarks.run.crew import CrewError
    from benchmarks.run.policy import NoModel
    from benchmarks.run.runner import run
    from envs.errors import EnvError, MissingDependency, TaskError
    from serving.errors import ModelError

    try:
        return run(parse(arguments))
    except (UsageError, TaskError) as error:
        return _end(2, error)
    except (MissingDependency, ModelError, NoModel) as error:
        return _end(3, error)
    except (CrewError, EnvError, OSError) as error:
        return _end(1, error)
    except KeyboardInterrupt:
        return _end(130, "interrupted")


def _end(code: int, error: object) -> int:
    log.error("error: %s" if code != 130 else "%s", error)
    return code


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a served model ends with us
    sys.exit(main(sys.argv[1:]))
