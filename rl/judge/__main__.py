"""The judge as a program.

  python -m rl.judge score [judge=default|rules|URL] [KEY=VALUE…] < rows.jsonl > judgements.jsonl
      Judges labelled or unlabelled exchanges (``rl.judge.labelled``), one JSON line each: id,
      score, confidence, reason, source, hint, seconds. KEY is one of ``judge.*``, such as votes=5.
  python -m rl.judge train [data=FILE] [out=FILE]
      Trains the default judge's weights, on our own exchanges or those of a file (add a ``style``
      to each row), and prints its rates over styles held out.
  python -m rl.judge rows part=NAME > rows.jsonl
      Prints a part of our own labelled exchanges: train, test, fresh, fresh2.

Exit 0 done, 2 user error, 3 the judge cannot be reached.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rl.errors import ConfigError, JudgeUnavailable
from rl.judge.labelled import exchange_of, read
from rl.judge.pipeline import build
from rl.judge.settings import JudgeConfig
from rl.judge.types import Exchange

AT_ONCE = {"default": 1, "rules": 1}  # so that their seconds are of one exchange
OTHERS_AT_ONCE = 32
SCORES = (-1, 0, 1)
MIN_STYLES = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    command, *rest = [*(sys.argv[1:] if arguments is None else arguments), ""]
    try:
        options = _options(rest)
        if command == "score":
            return asyncio.run(_score(options))
        if command == "train":
            return _train(options)
        if command == "rows":
            return _rows(options)
    except (ConfigError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    except JudgeUnavailable as error:
        print(error, file=sys.stderr)
        return 3
    print((__doc__ or "").strip(), file=sys.stdout if "help" in command else sys.stderr)
    return 0 if "help" in command else 2


def _options(arguments: Sequence[str]) -> dict[str, str]:
    pairs = [argument.partition("=") for argument in arguments if argument]
    wrong = [key for key, equals, _ in pairs if not equals]
    if wrong:
        raise ConfigError(f"{wrong[0]}: options are written KEY=VALUE")
    return {("model" if key == "judge" else key): value for key, _, value in pairs}


async def _score(options: dict[str, str]) -> int:
    try:
        settings = JudgeConfig.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        legal = ", ".join(("judge", *JudgeConfig.model_fields))
        raise ConfigError(f"{first['loc'][0]}: {first['msg']}; options are {legal}") from None
    exchanges = [_exchange(number, row) for number, row in read(sys.stdin)]
    pipeline = build(settings)
    places = asyncio.Semaphore(AT_ONCE.get(settings.model, OTHERS_AT_ONCE))

    async def judged(exchange: Exchange) -> dict[str, Any]:
        async with places:
            start = time.perf_counter()
            found = await pipeline(exchange)
            seconds = time.perf_counter() - start
        return {"id": exchange.id, **found.__dict__, "seconds": round(seconds, 6)}

    try:
        await pipeline.open()
        for line in await asyncio.gather(*map(judged, exchanges)):
            print(json.dumps(line, ensure_ascii=False))
    finally:
        await pipeline.close()
    return 0


def _exchange(number: int, row: dict[str, Any]) -> Exchange:
    try:
        return exchange_of(row)
    except ValueError as error:
        raise ConfigError(f"line {number}: {error}") from None


def _train(options: dict[str, str]) -> int:
    from rl.judge.classifier import WEIGHTS
    from rl.judge.data.compose import compose
    from rl.judge.embeddings import Embedder
    from rl.judge.training import train

    out, data = Path(options.pop("out", str(WEIGHTS))), options.pop("data", None)
    _refuse(options, "train takes data=FILE and out=FILE")
    rows = compose("train") if data is None else _labelled(Path(data))
    print(json.dumps(train(Embedder(), rows, out=out), indent=2))
    return 0


def _labelled(path: Path) -> list[dict[str, Any]]:
    try:
        numbered = list(read(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    for number, row in numbered:
        _exchange(number, row)
        if row.get("label") not in SCORES:
            legal = ", ".join(map(str, SCORES))
            raise ConfigError(f"line {number}: label is {row.get('label')!r}; it is one of {legal}")
    if len({row.get("style") for _, row in numbered}) < MIN_STYLES:
        raise ConfigError(f"{path}: rows of at least two styles are needed, one is held out")
    return [row for _, row in numbered]


def _rows(options: dict[str, str]) -> int:
    from rl.judge.data.compose import PARTS, compose

    part = options.pop("part", "")
    _refuse(options, "rows takes part=NAME")
    if part not in PARTS:
        raise ConfigError(f"part={part}: the parts are {', '.join(PARTS)}")
    for row in compose(part):
        print(json.dumps(row, ensure_ascii=False))
    return 0


def _refuse(options: dict[str, str], legal: str) -> None:
    if options:
        raise ConfigError(f"{next(iter(options))}: {legal} only")


if __name__ == "__main__":
    sys.exit(main())
