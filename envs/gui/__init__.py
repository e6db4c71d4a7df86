"""Desktops in sandboxes, seen and used as people see and use them.

``env`` is the environment, ``actions`` what can be done in it, ``dialects`` how other systems write
that down, ``desktop`` the session with a sandbox, ``inside`` the programs that run there, ``tree``
what an accessibility tree becomes, ``tasks`` the generated task set.
"""
