//! Reductions on either engine: of a vector, or of every row. Operands are checked here.

use crate::engine::device::engine::Engine;
use crate::engine::device::values::{ValueRows, Values};
use crate::engine::ops::deviations::Settings;
use crate::engine::ops::job::{Job, check_place};
use crate::engine::ops::{deviations, row_reductions, vector_reductions};
use crate::error::{Error, Result};
use crate::future::Boxed;
use crate::host;
pub(crate) use crate::host::Reduced;
use crate::memory;

pub(crate) fn reduce_vector<'a>(
    engine: &'a Engine,
    job: Job<'a>,
    values: Values<'a>,
    others: Option<Values<'a>>,
) -> Boxed<'a, Reduced> {
    Box::pin(async move {
        check_vectors(engine, &values, others.as_ref())?;
        match engine {
            _ if values.len() == 0 => Ok(job.of_nothing()),
            Engine::Gpu(gpu) => vector_reductions::reduce(gpu, &job, values, others).await,
            Engine::Host(_) => match (values.on_host(), others.unwrap_or(values).on_host()) {
                (Some(values), Some(others)) => host::reduce(job.operation, job.scale, values, others),
                _ => Err(in_buffers()),
            },
        }
    })
}

/// Reduces every row to a word: the bits of a sum, a key, or a place, which is `u32::MAX` in a row without a number.
pub(crate) fn reduce_rows<'a>(
    engine: &'a Engine,
    job: Job<'a>,
    values: ValueRows<'a>,
    others: Option<ValueRows<'a>>,
) -> Boxed<'a, Vec<u32>> {
    Box::pin(async move {
        check_rows(engine, &values, others.as_ref())?;
        match engine {
            _ if values.length() == 0 => memory::filled(values.rows(), job.of_nothing().record[0]),
            Engine::Gpu(gpu) => row_reductions::reduce(gpu, &job, values, others).await,
            Engine::Host(_) => {
                if job.operation.is_place() {
                    check_place(values.length() as u64 - 1, values.length() as u64)?;
                }
                let values = values.on_host()?;
                let others = others.map_or(Ok(values), |others| others.on_host())?;
                host::reduce_rows(job.operation, job.scale, values, others)
            }
        }
    })
}

/// The sum of a vector's squared deviations from its mean; of values times a factor.
pub(crate) fn squared_deviations<'a>(
    engine: &'a Engine,
    settings: Settings<'a>,
    values: Values<'a>,
) -> Boxed<'a, f32> {
    Box::pin(async move {
        check_vectors(engine, &values, None)?;
        match engine {
            _ if values.len() == 0 => Ok(0.0),
            Engine::Gpu(gpu) => deviations::of_vector(gpu, settings, values).await,
            Engine::Host(_) => match values.on_host() {
                Some(values) => host::squared_deviations(settings.0, values),
                None => Err(in_buffers()),
            },
        }
    })
}

/// The sum of every row's squared deviations from its mean; of values times a factor.
pub(crate) fn squared_deviations_rows<'a>(
    engine: &'a Engine,
    settings: Settings<'a>,
    values: ValueRows<'a>,
) -> Boxed<'a, Vec<f32>> {
    Box::pin(async move {
        check_rows(engine, &values, None)?;
        match engine {
            _ if values.length() == 0 => memory::filled(values.rows(), 0.0),
            Engine::Gpu(gpu) => deviations::of_rows(gpu, settings, values).await,
            Engine::Host(_) => host::squared_deviations_rows(settings.0, values.on_host()?),
        }
    })
}

fn in_buffers() -> Error {
    Error::internal("values on the host engine are in buffers")
}

/// An error unless both operands fit each other and live on this device.
fn check_vectors(engine: &Engine, values: &Values<'_>, others: Option<&Values<'_>>) -> Result<()> {
    values.kind().check_numbers("values")?;
    for (argument, operand) in [("values", Some(values)), ("others", others)] {
        if let Some(Values::Device(vector)) = operand {
            vector.check_device(argument, engine)?;
        }
    }
    let Some(others) = others else { return Ok(()) };
    if others.len() != values.len() {
        let needed = format!("{} numbers, as the values have", values.len());
        return Err(Error::argument("others", needed, others.len()));
    }
    if others.kind() != values.kind() {
        let needed = format!("{:?}, as the values are", values.kind());
        return Err(Error::argument("others", needed, format!("{:?}", others.kind())));
    }
    Ok(())
}

fn check_rows(engine: &Engine, values: &ValueRows<'_>, others: Option<&ValueRows<'_>>) -> Result<()> {
    values.kind().check_numbers("values")?;
    values.check_device("values", engine)?;
    let Some(others) = others else { return Ok(()) };
    others.check_device("others", engine)?;
    let shape = |rows: &ValueRows<'_>| format!("[{}, {}] {:?}", rows.rows(), rows.length(), rows.kind());
    if shape(others) != shape(values) {
        let needed = format!("{}, as the values have", shape(values));
        return Err(Error::argument("others", needed, shape(others)));
    }
    if others.place() != values.place() {
        let needed = format!("{}, as the values are", values.place());
        return Err(Error::argument("others", needed, others.place()));
    }
    Ok(())
}
