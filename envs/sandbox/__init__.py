"""Where an agent's commands run: ``protocol`` is the contract, ``docker`` the default."""
