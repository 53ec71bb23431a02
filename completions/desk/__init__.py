"""What completions contribute to the support desk.

- ``search``  finds completions
"""
