//! The operators of pgvector, between lists.

use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;
use datafusion::prelude::{Expr, lit};

use crate::functions::scalar_functions;
use crate::vectors::element_type;

/// Between lists of numbers, plans `<->` as `l2_distance`, `<=>` as `cosine_distance`, `<#>` as the negative of `inner_product`, `<~>` as
/// `hamming_distance` and `<%>` as `jaccard_distance`. The parser takes all but the second where `datafusion.sql_parser.dialect` is `PostgreSQL`, and that one in every dialect.
#[derive(Debug, Default)]
pub(crate) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let name = match &expr.op {
            BinaryOperator::LtDashGt => "l2_distance",
            BinaryOperator::Spaceship => "cosine_distance",
            BinaryOperator::Custom(operator) => match operator.as_str() {
                "<#>" => "inner_product",
                "<~>" => "hamming_distance",
                "<%>" => "jaccard_distance",
                _ => return Ok(PlannerResult::Original(expr)),
            },
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_list = |side: &Expr| {
            let kind = side.get_type(schema);
            kind.is_ok_and(|kind| element_type(&kind).is_some_and(|element| element.is_numeric()))
        };
        let functions = scalar_functions();
        let function = functions.iter().find(|function| function.name() == name);
        let Some(function) = function.filter(|_| is_list(&expr.left) || is_list(&expr.right)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let distance =
            Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), vec![expr.left, expr.right]));
        Ok(PlannerResult::Planned(if name == "inner_product" { lit(0.0) - distance } else { distance }))
    }
}
