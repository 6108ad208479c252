package org.apache.spark.sql.streamjoin.arrangement.maintain

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * A fixed order for the entries of maps, so that equal maps have equal bytes. Spark also sorts them
 * when it groups by a map (`InsertMapSortExpression`).
 */
final private[maintain] class MapOrder(schema: StructType) {

  /** Whether rows have maps. */
  val areIn: Boolean = schema.existsRecursively(_.isInstanceOf[MapType])

  private lazy val toSorted = UnsafeProjection.create(schema.zipWithIndex.map { case (field, at) =>
    MapOrder.sorted(BoundReference(at, field.dataType, field.nullable))
  })

  def sorted(row: UnsafeRow): UnsafeRow = toSorted(row)
}

private object MapOrder {
  private def hasMap(dataType: DataType) = dataType.existsRecursively(_.isInstanceOf[MapType])

  /** The value with all maps in it sorted. */
  private def sorted(value: Expression): Expression = value.dataType match {
    case MapType(keyType, valueType, _) if hasMap(keyType) || hasMap(valueType) =>
      MapSort(MapFromArrays(elements(MapKeys(value)), elements(MapValues(value))))
    case _: MapType => MapSort(value)
    case array: ArrayType if hasMap(array) => elements(value)
    case struct: StructType if hasMap(struct) =>
      val fields = struct.zipWithIndex.flatMap { case (field, at) =>
        Seq(Literal(field.name), sorted(GetStructField(value, at)))
      }
      If(IsNull(value), Literal(null, struct), CreateNamedStruct(fields))
    case _ => value
  }

  private def elements(array: Expression): Expression = {
    val ArrayType(element, containsNull) = array.dataType: @unchecked
    if (!hasMap(element)) array
    else {
      val each = NamedLambdaVariable("each", element, containsNull)
      ArrayTransform(array, LambdaFunction(sorted(each), Seq(each)))
    }
  }
}
