package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types._

/**
 * Replaces values of some types, including those nested in rows, arrays and maps.
 *
 * @param withKeys
 *   whether keys of maps are also replaced
 */
abstract private[base] class NestedValues(withKeys: Boolean) {

  /** The types that are replaced, with their replacements. */
  protected def replacedType: PartialFunction[DataType, DataType]

  /** @param dataType of the value, one that is replaced */
  protected def replaced(value: Expression, dataType: DataType): Expression

  final def typeOf(dataType: DataType): DataType = dataType match {
    case leaf if replacedType.isDefinedAt(leaf) => replacedType(leaf)
    case row: StructType => StructType(row.map(field => field.copy(dataType = typeOf(field.dataType))))
    case array: ArrayType => array.copy(elementType = typeOf(array.elementType))
    case map: MapType => map.copy(keyType = typeOfKey(map), valueType = typeOf(map.valueType))
    case other => other
  }

  private def typeOfKey(map: MapType): DataType = if (withKeys) typeOf(map.keyType) else map.keyType

  /**
   * @param value
   *   may be unresolved
   * @param dataType
   *   its type
   */
  final def of(value: Expression, dataType: DataType): Expression = dataType match {
    case same if typeOf(same) == same => value
    case row: StructType =>
      val fields = row.zipWithIndex.flatMap { case (field, at) =>
        Seq(Literal(field.name), of(GetStructField(value, at, Some(field.name)), field.dataType))
      }
      If(IsNull(value), Literal(null, typeOf(row)), CreateNamedStruct(fields))
    case array: ArrayType =>
      val element = NamedLambdaVariable("element", array.elementType, array.containsNull)
      ArrayTransform(value, LambdaFunction(of(element, array.elementType), Seq(element)))
    case map: MapType => ofMap(value, map)
    case other => replaced(value, other)
  }

  private def ofMap(value: Expression, map: MapType): Expression = {
    def key(dataType: DataType) = NamedLambdaVariable("key", dataType, nullable = false)
    val each = NamedLambdaVariable("value", map.valueType, map.valueContainsNull)
    val keys =
      if (typeOfKey(map) == map.keyType) value
      else {
        val before = key(map.keyType)
        TransformKeys(value, LambdaFunction(of(before, map.keyType), Seq(before, each)))
      }
    TransformValues(keys, LambdaFunction(of(each, map.valueType), Seq(key(typeOfKey(map)), each)))
  }
}
