"""MiniWoB++: the pages of the package ``miniwob`` as they ship, read from where it is installed.

``referee`` starts an episode and reads its reward, both through the page's own ``core.js``;
``tasks`` is the table of pages and the task set, ``solvers`` the scripted oracle, ``__main__`` what
people run.
"""
