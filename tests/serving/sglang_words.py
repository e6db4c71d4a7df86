"""What SGLang 0.5.23 calls things: sampling parameters, control routes, its one odd refusal."""

SAMPLING_KEYS = {
    *[
        "max_new_tokens",
        "stop",
        "stop_token_ids",
        "stop_regex",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
    ],
    *["frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n"],
    *["json_schema", "regex", "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens"],
    *["spaces_between_special_tokens", "no_stop_trim", "stream_interval", "logit_bias"],
    *["sampling_seed", "custom_params", "beam_width", "watermark", "choice"],
}
CONTROL = {
    *["/pause_generation", "/continue_generation", "/update_weights_from_disk", "/abort_request"],
    *["/load_lora_adapter", "/unload_lora_adapter", "/flush_cache", "/update_weight_version"],
}
NOT_FLUSHED = (
    "Weights were updated, but the cache was not flushed because requests are still running or "
    "queued. Retract or finish them, then call /flush_cache."
)
