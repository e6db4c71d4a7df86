"""Shell tasks: a generated family of small problems in a sandbox, from trivial to hard.

``env`` is the environment, ``inspector`` the verifier that runs inside the sandbox, ``checks`` the
vocabulary of goal states, ``draw`` and ``templates`` the generator, ``tasks`` the task set.
"""
