"""The package's own checkers over answers, one JSON row in, one out. Runs in the package's own
environment by ``python bfcl_official.py`` and imports nothing of ours.

In: ``{"id", "category", "row", "gold", "answer"}``; the answer is the text of a reply, for
multi-turn categories the calls of each step of each turn. Out: ``{"id", "valid", "error_type"}``;
``crashed`` with the exception when the checker itself failed. The table of models, which would pull
the SDK of every vendor, is replaced by one entry. Each multi-turn answer gets a model name of its
own that is a Python identifier: the checker keeps instances by that name (docs/toolcall.md).
"""

import json
import sys
import types


class _Model:
    underscore_to_dot = False


class _Models(dict):  # type: ignore[type-arg]
    def __missing__(self, name: str) -> type[_Model]:
        return _Model


def _check(case: dict) -> dict:  # type: ignore[type-arg]
    from bfcl_eval.constants.enums import Language, ReturnFormat  # type: ignore[import-not-found]
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # type: ignore[import-not-found]
    from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_checker as several  # type: ignore[import-not-found]
    from bfcl_eval.model_handler.utils import default_decode_ast_prompting  # type: ignore[import-not-found]
    from bfcl_eval.utils import is_empty_output, is_function_calling_format_output  # type: ignore[import-not-found]

    category, row, gold = case["category"], case["row"], case["gold"]
    if category.startswith("multi_turn"):
        turns, name = case["answer"], f"m{case['number']}"
        if len(turns) != len(gold):
            return {"valid": False, "error_type": "multi_turn:force_terminated"}
        result = several.multi_turn_checker(turns, gold, row, category, name)
        if result["valid"] and "irrelevance" not in category:
            return {"valid": True, "error_type": ""}
        return {"valid": result["valid"], "error_type": result.get("error_type", "")}
    language, form = Language.PYTHON, ReturnFormat.PYTHON
    if "java" in category:
        script = "javascript" in category
        language = Language.JAVASCRIPT if script else Language.JAVA
        form = ReturnFormat.JAVASCRIPT if script else ReturnFormat.JAVA
    try:
        decoded = default_decode_ast_prompting(case["answer"], form)
    except Exception:  # whatever the decoder raises is "no call"
        decoded = None
    if "relevance" in category:
        called = decoded is not None and not is_empty_output(decoded)
        valid = called != ("irrelevance" in category)
        kind = "irrelevance_error:decoder_success" if called else "relevance_error:decoder_failed"
        return {"valid": valid, "error_type": "" if valid else kind}
    if decoded is None:
        return {"valid": False, "error_type": "ast_decoder:decoder_failed"}
    if not is_function_calling_format_output(decoded):
        return {"valid": False, "error_type": "ast_decoder:decoder_wrong_output_format"}
    result = ast_checker(row["function"], decoded, gold, language, category, "any")
    return {"valid": result["valid"], "error_type": "" if result["valid"] else result["error_type"]}


def main() -> None:
    """Answer rows until standard input ends."""
    table = types.ModuleType("bfcl_eval.constants.model_config")
    table.MODEL_CONFIG_MAPPING = _Models()  # type: ignore[attr-defined]
    sys.modules[table.__name__] = table
    out = sys.stdout
    sys.stdout = sys.stderr
    for number, line in enumerate(sys.stdin):
        case = {**json.loads(line), "number": number}
        try:
            found = _check(case)
        except Exception as error:  # the checker's own failure is a finding of the comparison
            found = {"valid": False, "error_type": "crashed", "why": repr(error)[:200]}
        out.write(json.dumps({"id": case["id"], **found}) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
