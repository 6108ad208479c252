"""Nexmark on Spark: the generator, the queries with joins, and their measurement."""
