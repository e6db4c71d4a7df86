"""How each family of models writes tool calls and thoughts; see ``serving.formats.table``."""
