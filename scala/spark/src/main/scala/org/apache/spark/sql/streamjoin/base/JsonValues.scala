package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * Values in a form that JSON supports. Spark cannot write geometries as JSON (`JacksonGenerator`),
 * so they become well-known binary, which JSON encodes as base64.
 */
private[streamjoin] object JsonValues extends NestedValues(withKeys = false) {

  override protected def replacedType: PartialFunction[DataType, DataType] = {
    case _: GeometryType | _: GeographyType => BinaryType
  }

  /** Found by name, because its constructors differ between Spark lines. */
  override protected def replaced(value: Expression, dataType: DataType): Expression =
    FunctionRegistry.builtin.lookupFunction(FunctionIdentifier("st_asbinary"), Seq(value))

  /** The columns of a row, to be evaluated. */
  def columns(schema: StructType): Seq[Expression] = schema.zipWithIndex.map { case (field, at) =>
    of(BoundReference(at, field.dataType, field.nullable), field.dataType).transformUp {
      case replaced: RuntimeReplaceable => replaced.replacement
    }
  }
}
