"""Access to Spark: how sessions are built, checked and called."""
