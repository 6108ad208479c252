package org.apache.spark.sql.streamjoin.upsert

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.connector.catalog.{
  Identifier,
  InMemoryBaseTable,
  InMemoryRowLevelOperationTableCatalog,
  Table
}

/** The session of a running query has its own catalogs, which here share their tables. */
class SharedTables extends InMemoryRowLevelOperationTableCatalog {
  tables = SharedTables.all
}

object SharedTables {
  private val all = new ConcurrentHashMap[Identifier, Table]()

  /** Grows with each commit. */
  def versionOf(namespace: String, name: String): String =
    all.get(Identifier.of(Array(namespace), name)).asInstanceOf[InMemoryBaseTable].version()
}
