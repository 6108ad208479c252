package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.types.{MapType, VariantType}

private[streamjoin] object WholeRow {

  /** All columns that can be hashed, so that a row is sent to the same task in every attempt. */
  def hashed(columns: Seq[Attribute]): Seq[Attribute] =
    columns.filterNot(_.dataType.existsRecursively {
      case _: MapType | VariantType => true
      case _ => false
    })
}
