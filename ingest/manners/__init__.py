"""How sites are asked: what their robots.txt says, whose turn it is, what an answer is worth."""
