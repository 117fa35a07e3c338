"""A run checked afterwards, from its journal and its resolved spec, by someone who trusts nobody who took part."""
