package org.apache.spark.sql.streamjoin.front.sql

import scala.collection.mutable

import org.antlr.v4.runtime.misc.ParseCancellationException
import org.antlr.v4.runtime.{CommonTokenStream, ParserRuleContext, Token}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.SqlBaseParser.{JoinRelationContext, RelationContext}
import org.apache.spark.sql.catalyst.parser.{
  AbstractSqlParser,
  ParameterLocation,
  ParseException,
  SqlBaseParser,
  SqlBaseParserBaseListener,
  SubstituteParmsAstBuilder
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkSqlAstBuilder
import org.apache.spark.sql.streamjoin.plans.InputWithClauses

/**
 * Parses one text that may contain our clauses. [[StreamJoinParser]] uses it for a text that the
 * other parser rejects. It hides the tokens of possible clauses while Spark's parser reads the
 * rest; the input of a join claims the clauses that follow it. An unclaimed one only looked like a
 * clause (`sum(x) OVER (RANGE ...)`): its tokens are shown again, and the text is parsed once more.
 *
 * It keeps the clauses that it finds, so each text needs a new parser.
 */
final private[sql] class ClauseParser(text: SqlText) extends AbstractSqlParser {
  private val claims = new Claims
  private var candidates = Seq.empty[FoundClause]

  override val astBuilder: SparkSqlAstBuilder = new SparkSqlAstBuilder {
    override protected def plan(tree: ParserRuleContext): LogicalPlan = {
      val input = super.plan(tree)
      claims.of(tree).flatMap(_.content.toOption) match {
        case Seq() => input
        case clauses => InputWithClauses(clauses, input)
      }
    }
  }

  /** Clauses that belong to a join. */
  def claimed: Seq[FoundClause] = claims.all

  /**
   * The first error in the clauses. It must not be thrown while Spark's parser runs, because the
   * parser would wrap it.
   */
  def error: Option[AnalysisException] = claimed.flatMap(_.content.left.toOption).headOption

  /** A clause with an error that contains a parameter. */
  def parameterInClause: Option[FoundClause] = claimed.find { clause =>
    clause.content.isLeft && clause.tokens.exists(token =>
      token.getType == SqlBaseParser.QUESTION || token.getType == SqlBaseParser.COLON
    )
  }

  /** Whether the text has keywords that only our clauses begin with. */
  def hasClauses: Boolean = claimed.nonEmpty || candidates.exists(_.position == Position.OfJoin)

  /** All parameters of the text in order, including those in our clauses. */
  def parameters(command: String): Seq[ParameterLocation] = parse(command) { parser =>
    val outside =
      new SubstituteParmsAstBuilder().extractParameterLocations(parser.compoundOrSingleStatement())
    val inside = claimed.flatMap { clause =>
      clause.tokens.zip(clause.tokens.drop(1) :+ clause.last).collect {
        case (mark, _) if mark.getType == SqlBaseParser.QUESTION => mark -> mark
        case (mark, name) if mark.getType == SqlBaseParser.COLON => mark -> name
      }
    }
    val locations = outside.namedParameterLocations.values.flatten ++ outside.positionalParameterLocations ++
      inside.map { case (first, last) => ParameterLocation(first.getStartIndex, last.getStopIndex + 1) }
    locations.toSeq.sortBy(_.start)
  }

  // Spark may call the function twice: in its fast parsing mode, and then in the slow one.
  override protected def parse[T](command: String)(toResult: SqlBaseParser => T): T =
    super.parse(command) { parser =>
      val stream = parser.getTokenStream.asInstanceOf[CommonTokenStream]
      candidates.foreach(_.show())
      val tokens = Tokens.of(stream)
      val found = FoundClause.in(tokens, text)
      parser.removeParseListener(claims)
      parser.addParseListener(claims)
      val (doubtful, clear) = found.partition(_.isDoubtful)
      // If the text cannot be parsed without them, some are clauses. If it can never be parsed, the
      // error is that of the first attempt.
      val tries = (0 to doubtful.size).iterator
        .flatMap(doubtful.combinations)
        .take(ClauseParser.Tries)
        .map(some => found.filter(clause => clear.contains(clause) || some.contains(clause)))
      var first = Option.empty[Throwable]
      val results = tries.flatMap { some =>
        candidates = some
        try Some(parseWith(some, stream, tokens, parser)(toResult))
        catch {
          case error @ (_: ParseException | _: ParseCancellationException) =>
            first = first.orElse(Some(error))
            some.foreach(_.show())
            None
        }
      }
      results.nextOption().getOrElse {
        candidates = clear
        throw first.get
      }
    }

  private def parseWith[T](
      hidden: Seq[FoundClause],
      stream: CommonTokenStream,
      tokens: Tokens,
      parser: SqlBaseParser
  )(
      toResult: SqlBaseParser => T
  ): T = {
    hidden.foreach(_.hide())
    claims.begin(hidden, stream, tokens.depthOf)
    parser.reset()
    val result = toResult(parser)
    if (claims.all.size == hidden.size) result
    else {
      hidden.foreach(_.show())
      parseWith(claims.all, stream, tokens, parser)(toResult)
    }
  }
}

private object ClauseParser {

  /** The maximum number of readings of doubtful clauses that are tried. */
  private val Tries = 16
}

/** Assigns each clause to an input of a join, before Spark builds the plan of that input. */
final private class Claims extends SqlBaseParserBaseListener {
  private val inputs = mutable.LinkedHashMap.empty[FoundClause, ParserRuleContext]
  // Each with the index of the token before it.
  private var hidden = Seq.empty[(FoundClause, Int)]
  private var depthOf: Token => Int = _ => 0

  /** Called before each run of Spark's parser. */
  def begin(clauses: Seq[FoundClause], stream: CommonTokenStream, depth: Token => Int): Unit = {
    inputs.clear()
    depthOf = depth
    hidden = clauses.map { clause =>
      val before = (clause.first.getTokenIndex - 1 to 0 by -1)
        .find(at => stream.get(at).getChannel == Token.DEFAULT_CHANNEL)
      clause -> before.getOrElse(-1)
    }
  }

  def all: Seq[FoundClause] = hidden.map(_._1).filter(inputs.contains)

  def of(input: ParserRuleContext): Seq[FoundClause] = all.filter(inputs(_) eq input)

  override def exitEveryRule(context: ParserRuleContext): Unit =
    if (context.getStop != null) {
      context match {
        case join: JoinRelationContext if join.right != null => claim(join.right, join)
        case relation: RelationContext if relation.relationPrimary != null =>
          claim(relation.relationPrimary, relation.relationPrimary)
        case _ =>
      }
      extend(context)
    }

  private def claim(input: ParserRuleContext, after: ParserRuleContext): Unit =
    for ((clause, before) <- hidden if !inputs.contains(clause)) {
      val (first, last) = (input.getStart.getTokenIndex, input.getStop.getTokenIndex)
      val belongs = clause.position match {
        case Position.OfJoin => before == last || before == after.getStop.getTokenIndex
        case Position.OfInput => first <= before && before <= last && clause.depth == depthOf(input.getStart)
      }
      if (belongs) inputs(clause) = input
    }

  /**
   * Extends a context that ends before a clause to the clause's end: a view keeps its query's text.
   */
  private def extend(context: ParserRuleContext): Unit =
    if (context.getStart.getTokenIndex <= context.getStop.getTokenIndex)
      hidden
        .collect {
          case (clause, before) if inputs.contains(clause) && before == context.getStop.getTokenIndex =>
            clause.last
        }
        .maxByOption(_.getTokenIndex)
        .foreach(context.stop = _)
}
