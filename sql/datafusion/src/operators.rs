//! The operators of pgvector, between lists and binary values.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::sqlparser::ast::BinaryOperator;
use datafusion::prelude::{Expr, lit};

use crate::functions::scalar_functions;
use crate::vectors::{element_type, holds_bits};

/// Plans `<->` as `l2_distance`, `<=>` as `cosine_distance`, `<#>` as the negative of `inner_product`, `<~>` as `hamming_distance` and
/// `<%>` as `jaccard_distance`, where either side is a list of numbers or a binary value. The parser takes all but the second where
/// `datafusion.sql_parser.dialect` is `PostgreSQL`, and that one in every dialect.
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
        // `<=>` means equality of NULLs too between binary values, and they have no cosine.
        let takes_bits = name != "cosine_distance";
        let is_vector = |side: &Expr| {
            let is_list = |kind: &DataType| element_type(kind).is_some_and(DataType::is_numeric);
            side.get_type(schema).is_ok_and(|kind| is_list(&kind) || takes_bits && holds_bits(&kind))
        };
        let functions = scalar_functions();
        let function = functions.iter().find(|function| function.name() == name);
        let Some(function) = function.filter(|_| is_vector(&expr.left) || is_vector(&expr.right)) else {
            return Ok(PlannerResult::Original(expr));
        };
        let distance =
            Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), vec![expr.left, expr.right]));
        Ok(PlannerResult::Planned(if name == "inner_product" { lit(0.0) - distance } else { distance }))
    }
}
