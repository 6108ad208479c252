"""The settings of Apache DataFusion Comet, for the session of the tests; `make test-comet` says where its jar is."""

import os

JAR = os.environ.get("STREAMJOIN_COMET")

SETTINGS = (
    {
        "spark.driver.extraClassPath": JAR,
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": "1g",
        # Comet leaves a plan with a stream alone. A batch without new rows has only local tables at
        # its leaves; with these settings, Comet replaces all that it can above them.
        "spark.comet.exec.localTableScan.enabled": "true",
        "spark.comet.sparkToColumnar.enabled": "true",
    }
    if JAR
    else {}
)
