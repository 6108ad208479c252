package org.apache.spark.sql.streamjoin.joins.delta

import java.util.{HashMap => JHashMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.arrangement.lookup.{
  FilterProject,
  IndexAccess,
  IndexReaderExec,
  LookUpTask
}
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.types.AtomicType

/**
 * Adds to each row the number of its matches in the arrangement.
 *
 * @param condition
 *   the remaining condition on a row found by its key
 */
final private[streamjoin] case class CountMatchesExec(
    access: IndexAccess,
    condition: Option[Expression],
    matches: Attribute,
    child: SparkPlan
) extends IndexReaderExec {
  override protected def outputExpressions: Seq[NamedExpression] = output

  override def output: Seq[Attribute] = child.output :+ matches

  override protected def results: (LookUpTask, Iterator[InternalRow]) => Iterator[InternalRow] = {
    val counting =
      MatchCondition.of(
        condition.toSeq.flatMap(PredicateParts.conjuncts),
        access.key,
        child.output,
        access.found
      )
    val handedOn = FilterProject(None, output, output)
    (task, rows) => {
      val counts = new MatchCounts(counting, task.look)
      val number = new GenericInternalRow(1)
      val joined = new JoinedRow
      handedOn.inTask(rows.map { row =>
        number.setLong(0, counts.of(row))
        joined(row, number)
      })
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): CountMatchesExec = copy(child = newChild)

  override def simpleString(maxFields: Int): String =
    s"CountMatches ${access.words}${FilterProject.where(condition)}, keeps nothing"
}

/**
 * A condition on a row and a found row, in parts; all expressions are bound.
 *
 * @param key
 *   the values with which rows are looked up
 * @param own
 *   the part on the row
 * @param ofFound
 *   the part on a found row, evaluated with both rows
 * @param equal
 *   values of the row that have to equal those of `equalFound`
 * @param equalFound
 *   values of a found row, evaluated with both rows
 * @param never
 *   positions among these values at which a null matches nothing
 * @param compared
 *   values of a found row that `rest` needs, evaluated with both rows
 * @param rest
 *   the rest, on the row and the values of `compared`
 */
final private[delta] case class MatchCondition(
    key: Seq[Expression],
    own: Option[Expression],
    ofFound: Option[Expression],
    equal: Seq[Expression],
    equalFound: Seq[Expression],
    never: Seq[Int],
    compared: Seq[Expression],
    rest: Option[Expression]
)

private[delta] object MatchCondition {
  def of(
      conjuncts: Seq[Expression],
      key: Seq[Attribute],
      row: Seq[Attribute],
      found: Seq[Attribute]
  ): MatchCondition = {
    val (ofRow, ofFound) = (AttributeSet(row), AttributeSet(found))
    val (own, others) = conjuncts.partition(_.references.subsetOf(ofRow))
    val (foundOnly, pairs) = others.partition(_.references.subsetOf(ofFound))
    val equalities = pairs.map(one => one -> equality(one, ofRow, ofFound))
    val equal = equalities.flatMap(_._2)
    val rest = equalities.collect { case (one, None) => one }
    val compared = found.filter(AttributeSet(rest.flatMap(_.references)).contains)
    def bound(expression: Expression) = BindReferences.bindReference(expression, row ++ found)
    MatchCondition(
      key.map(bound),
      PredicateParts.all(own.map(bound)),
      PredicateParts.all(foundOnly.map(bound)),
      equal.map(one => bound(one.own)),
      equal.map(one => bound(one.found)),
      equal.indices.filterNot(equal(_).nullSafe),
      compared.map(bound),
      PredicateParts.all(rest.map(BindReferences.bindReference(_, row ++ compared)))
    )
  }

  final private case class Equality(own: Expression, found: Expression, nullSafe: Boolean)

  /** An equality that holds if the bytes of two values are the same. */
  private def equality(conjunct: Expression, row: AttributeSet, found: AttributeSet): Option[Equality] = {
    def of(a: Expression, b: Expression, nullSafe: Boolean) = Seq(a -> b, b -> a)
      .find { case (own, other) => own.references.subsetOf(row) && other.references.subsetOf(found) }
      .filter(_ => comparesBytes(a) && comparesBytes(b))
      .map { case (own, other) =>
        Equality(
          NormalizeFloatingNumbers.normalize(own),
          NormalizeFloatingNumbers.normalize(other),
          nullSafe
        )
      }
    conjunct match {
      case EqualTo(a, b) => of(a, b, nullSafe = false)
      case EqualNullSafe(a, b) => of(a, b, nullSafe = true)
      case _ => None
    }
  }

  private def comparesBytes(value: Expression): Boolean = value.dataType match {
    case atomic: AtomicType => UnsafeRowUtils.isBinaryStable(atomic)
    case _ => false
  }
}

/**
 * Counts the matches of rows, one row at a time. The rows of a key are read once and grouped by the
 * values that the condition compares. So for a key with many rows on both sides, the cost is the
 * sum of their numbers, not the product, unless the condition contains more than equalities.
 *
 * @param look
 *   finds the rows of the key of a row, each joined with it; their first column is the number of
 *   copies
 */
final private[delta] class MatchCounts(
    condition: MatchCondition,
    look: InternalRow => Iterator[InternalRow]
) {
  import MatchCounts._

  private val keyOf = UnsafeProjection.create(condition.key)
  private val equalOf = UnsafeProjection.create(condition.equal)
  private val equalFoundOf = UnsafeProjection.create(condition.equalFound)
  private val comparedOf = UnsafeProjection.create(condition.compared)
  private val own = condition.own.map(Predicate.create(_))
  private val ofFound = condition.ofFound.map(Predicate.create(_))
  private val rest = condition.rest.map(Predicate.create(_))

  /** By key and equal values: the copies by the other values that the condition compares. */
  private val found = new JHashMap[UnsafeRow, Found]
  private var groups = 0
  private val joined = new JoinedRow

  def of(row: InternalRow): Long =
    if (!own.forall(_.eval(row))) 0L
    else {
      val ofKey = foundBy(row)
      val equal = equalOf(row)
      val candidates = if (matchesNothing(equal)) null else ofKey.get(equal)
      if (candidates == null) 0L
      else
        rest.fold(candidates.values.iterator.asScala.map(_.longValue).sum) { rest =>
          candidates.entrySet.iterator.asScala.collect {
            case group if rest.eval(joined(row, group.getKey)) => group.getValue.longValue
          }.sum
        }
    }

  private def foundBy(row: InternalRow): Found = {
    val key = keyOf(row)
    val known = found.get(key)
    if (known != null) known
    else {
      if (groups >= MostGroups) {
        found.clear()
        groups = 0
      }
      val read = readBy(row)
      found.put(key.copy(), read)
      groups += 1 + read.values.iterator.asScala.map(_.size).sum
      read
    }
  }

  private def readBy(row: InternalRow): Found = {
    val groups = new Found
    look(row).filter(pair => ofFound.forall(_.eval(pair))).foreach { pair =>
      val equal = equalFoundOf(pair)
      if (!matchesNothing(equal)) {
        if (!groups.containsKey(equal)) groups.put(equal.copy(), new Group)
        val group = groups.get(equal)
        val compared = comparedOf(pair)
        val copies = group.getOrDefault(compared, 0L) + pair.getLong(row.numFields)
        group.put(if (group.containsKey(compared)) compared else compared.copy(), copies): Unit
      }
    }
    groups
  }

  private def matchesNothing(equal: UnsafeRow): Boolean = condition.never.exists(equal.isNullAt)
}

private object MatchCounts {
  private type Group = JHashMap[UnsafeRow, java.lang.Long]
  private type Found = JHashMap[UnsafeRow, Group]

  /** The maximum number of remembered groups, unless a single key has more. */
  private val MostGroups = 1 << 17
}
