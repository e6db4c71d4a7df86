"""What people ask: templates by domain, each with a kept answer.

``draw`` the generator and the disjoint parameter pools of the splits; ``school``, ``home``,
``work`` and ``languages`` the templates. Nothing is copied from elsewhere.
"""
