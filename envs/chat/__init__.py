"""Simulated users: people who ask, and who correct a reply that is not as they like it.

``criteria`` are the rules by which a wish is checked, ``personas`` who has which wish,
``phrasings`` how wishes are said, ``bank`` what people ask, ``session`` the conversation, ``env``
the environment, ``llm_user`` the same people played by a language model behind a URL, ``tasks`` the
task set.
"""
