"""The engine that speaks to SGLang servers; nothing else names them."""
