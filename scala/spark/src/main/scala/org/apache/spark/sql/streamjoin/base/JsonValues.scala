package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.FunctionRegistry
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * Values as JSON can hold them. Spark writes no geometries as JSON (`JacksonGenerator`), so they
 * become well-known binary, which JSON has as base64.
 */
private[streamjoin] object JsonValues {

  /** The type of a value in JSON. */
  def typeOf(dataType: DataType): DataType = dataType match {
    case _: GeometryType | _: GeographyType => BinaryType
    case row: StructType => StructType(row.map(field => field.copy(dataType = typeOf(field.dataType))))
    case array: ArrayType => array.copy(elementType = typeOf(array.elementType))
    case map: MapType => map.copy(valueType = typeOf(map.valueType))
    case other => other
  }

  /**
   * @param value
   *   may be unresolved
   * @param dataType
   *   its type
   */
  def of(value: Expression, dataType: DataType): Expression = dataType match {
    case same if typeOf(same) == same => value
    case row: StructType =>
      val fields = row.zipWithIndex.flatMap { case (field, at) =>
        Seq(Literal(field.name), of(GetStructField(value, at, Some(field.name)), field.dataType))
      }
      If(IsNull(value), Literal(null, typeOf(row)), CreateNamedStruct(fields))
    case array: ArrayType =>
      val element = NamedLambdaVariable("element", array.elementType, array.containsNull)
      ArrayTransform(value, LambdaFunction(of(element, array.elementType), Seq(element)))
    case map: MapType =>
      val (key, each) = (
        NamedLambdaVariable("key", map.keyType, nullable = false),
        NamedLambdaVariable("value", map.valueType, map.valueContainsNull)
      )
      TransformValues(value, LambdaFunction(of(each, map.valueType), Seq(key, each)))
    // By name: its constructors differ between Spark's lines.
    case _ => FunctionRegistry.builtin.lookupFunction(FunctionIdentifier("st_asbinary"), Seq(value))
  }

  /** The columns of a row, to be evaluated. */
  def columns(schema: StructType): Seq[Expression] = schema.zipWithIndex.map { case (field, at) =>
    of(BoundReference(at, field.dataType, field.nullable), field.dataType).transformUp {
      case replaced: RuntimeReplaceable => replaced.replacement
    }
  }
}
