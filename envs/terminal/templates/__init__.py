"""The templates, one module per skill. To add one, write a function in the module of its noun."""
