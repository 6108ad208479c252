package org.apache.spark.sql.streamjoin.upsert

import org.apache.spark.sql.Column
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._

/** Rewrites parts of a column at any depth in arrays, maps and structs. */
private[upsert] object Nested {

  /**
   * Converts maps to arrays of their entries, sorted by key, so that equal maps are equal. Spark's
   * own grouping by maps (`MapSort`) treats a null of a primitive type as 0.
   */
  def sorted(column: Column, dataType: DataType): Column = rewrite(column, dataType, isMap) {
    case (map, MapType(_, value, _)) =>
      val entries = map_entries(map)
      val rewritten =
        if (!has(value, isMap)) entries
        else
          transform(
            entries,
            entry =>
              struct(entry.getField("key").as("key"), sorted(entry.getField("value"), value).as("value"))
          )
      // Sorted only by key, which is unique, because some values cannot be compared.
      array_sort(
        rewritten,
        (one, other) => {
          val (left, right) = (one.getField("key"), other.getField("key"))
          when(left < right, -1).when(left > right, 1).otherwise(0)
        }
      )
    case (other, _) => other
  }

  /** Restores the maps. */
  def unsorted(column: Column, dataType: DataType): Column = rewrite(column, dataType, isMap) {
    case (entries, MapType(_, value, _)) =>
      val rewritten =
        if (!has(value, isMap)) entries
        else
          transform(
            entries,
            entry =>
              struct(entry.getField("key").as("key"), unsorted(entry.getField("value"), value).as("value"))
          )
      map_from_entries(rewritten)
    case (other, _) => other
  }

  /** Converts geometries to well-known binary, because `to_json` cannot write them. */
  def forJson(column: Column, dataType: DataType): Column = rewrite(column, dataType, isSpatial) {
    case (map, MapType(key, value, _)) =>
      map_from_entries(
        transform(
          map_entries(map),
          entry =>
            struct(
              forJson(entry.getField("key"), key).as("key"),
              forJson(entry.getField("value"), value).as("value")
            )
        )
      )
    case (spatial, _) => call_function("st_asbinary", spatial)
  }

  /**
   * Calls `at` with the outermost maps and with the wanted values, if a value is wanted or contains
   * wanted ones.
   */
  private def rewrite(column: Column, dataType: DataType, wanted: DataType => Boolean)(
      at: (Column, DataType) => Column
  ): Column = dataType match {
    case _ if !has(dataType, wanted) => column
    case ArrayType(element, _) => transform(column, rewrite(_, element, wanted)(at))
    case fields: StructType =>
      val rewritten = fields.map { field =>
        rewrite(column.getField(field.name), field.dataType, wanted)(at).as(field.name)
      }
      when(column.isNotNull, struct(rewritten: _*))
    case _ => at(column, dataType)
  }

  private def has(dataType: DataType, wanted: DataType => Boolean): Boolean =
    dataType.existsRecursively(wanted)

  private def isMap(dataType: DataType) = dataType.isInstanceOf[MapType]

  // By name, because not every Spark line has the classes.
  private def isSpatial(dataType: DataType) =
    Seq("geometry", "geography").exists(dataType.typeName.startsWith)
}
