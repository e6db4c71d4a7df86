"""Settings of judging: ``judge.KEY=VALUE``."""

from pydantic import Field

from rl.methodsettings import Section

LOCAL = ("default", "rules", "policy")


class JudgeConfig(Section):
    """How replies are judged."""

    model: str = Field(
        "default",
        description="default: the small classifier; rules: only feedback and rules; policy: the "
        "served policy itself; or the base URL of any OpenAI-compatible server, such as "
        "http://127.0.0.1:8000/v1",
    )
    name: str = Field("default", description="model name asked for at the URL")
    key_env: str = Field("CLAWGYM_JUDGE_KEY", description="variable that holds the URL's key")
    votes: int = Field(3, ge=1, le=31, description="answers asked of a judge model per exchange")
    temperature: float = Field(0.6, ge=0, le=2, description="of the votes")
    max_tokens: int = Field(256, ge=16, description="most tokens of one vote")
    timeout_s: float = Field(60.0, gt=0, description="for one vote, from when it is sent")
    concurrency: int = Field(8, ge=1, description="votes asked for at once")
    history_chars: int = Field(
        6000, ge=0, description="most characters of earlier messages shown to a judge model"
    )
    confidence: float = Field(
        0.5, ge=0, le=1, description="the classifier's verdicts below it become no verdict"
    )
