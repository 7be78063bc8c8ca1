"""The checker that `conftest.py` puts behind every signature of `core`."""

from beartype import BeartypeConf, beartype

# An int is a float wherever a float is asked for, as in PEP 484.
checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
