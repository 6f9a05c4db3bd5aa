"""CustomResourceDefinitions: kinds that a cluster learns at run time.

``definition`` turns a definition into entries of the registry, ``definitions`` keeps the registry of one cluster up
to date, ``structural`` reads objects by their schema, ``values`` says what is wrong with them, ``rules`` runs CEL.
"""
