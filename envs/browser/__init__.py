"""Web pages in a browser in a sandbox, seen and used as people and programs see and use them.

``env`` is the environment, ``actions`` what can be done in it, ``site`` which addresses exist,
``session`` one episode's tabs, ``browser`` the Chromium in a sandbox, ``shelf`` those kept warm,
``eye.js`` what reads pages, ``miniwob`` a public task set.
"""
