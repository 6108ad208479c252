package org.apache.spark.sql.streamjoin

import java.util.{Map => JMap}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.catalog.{Table, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.sources.DataSourceRegister
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementProvider
import org.apache.spark.sql.streamjoin.observe.read.{StateOptions, StateTable}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** `format("streamjoin")`: an arrangement or, with a checkpoint, the state of its joins. */
final class StreamJoinProvider extends TableProvider with DataSourceRegister {
  override def shortName(): String = "streamjoin"

  override def supportsExternalMetadata: Boolean = true

  override def inferSchema(options: CaseInsensitiveStringMap): StructType =
    if (StateOptions.areGiven(options)) state(options).schema else ArrangementProvider.schema(options)

  override def getTable(schema: StructType, by: Array[Transform], properties: JMap[String, String]): Table = {
    val options = new CaseInsensitiveStringMap(properties)
    if (StateOptions.areGiven(options)) state(options) else ArrangementProvider.table(schema, options)
  }

  private def state(options: CaseInsensitiveStringMap) = new StateTable(SparkSession.active, options)
}
