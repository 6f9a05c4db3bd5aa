"""The facts of each kind, as data: a new kind is an entry here and no code elsewhere.

``kinds.registry`` holds the entries, ``types`` the fields, ``facts`` what the types do not tell.
"""
