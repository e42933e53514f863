"""How driver, agents and ranks talk: messages and their transports."""
