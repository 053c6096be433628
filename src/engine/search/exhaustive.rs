//! The exhaustive route: the reporting kernel computes every distance, for small indexes, for large k, and for queries
//! whose list of nominated rows overflowed. No data defeat it.

use crate::engine::device::queries::{Numbers, Queries};
use crate::engine::rows::allowed::Looked;
use crate::engine::rows::segments::GpuRows;
use crate::engine::search::answers::Results;
use crate::engine::search::pipeline::SearchRequest;
use crate::engine::search::plan::{Plan, Route};
use crate::error::{Error, Result};
use crate::gpu::{BufferSlice, Commands, Profile, Request};
use crate::kernels::{norms, rescore, select_k};
use crate::matrix::ElementKind;

/// Computes every distance of a batch, chunk after chunk, keeping the k best so far in front of each chunk.
pub(crate) async fn exhaustive(
    rows: &GpuRows,
    queries: &Queries<'_>,
    numbers: &Numbers,
    request: &SearchRequest<'_>,
    plan: &Plan,
    profile: Option<&mut Profile>,
) -> Result<Results> {
    let Route::Exhaustive { chunk_rows } = plan.route else {
        return Err(Error::Device { message: "a nominating plan cannot be run exhaustively".into() });
    };
    let gpu = &rows.gpu;
    let (count, k) = (numbers.len() as u64, u64::from(plan.k));
    let pitch = k + u64::from(chunk_rows);
    let many = plan.k > select_k::SORTED_MAX;
    let places = if many { 3 } else { 2 };
    let request_of = |purpose, bytes| Request { purpose, bytes };
    let mut requests = vec![
        request_of("queries", count * rows.vectors_bytes()),
        request_of("query norms", count * 8),
        request_of("refused", 8),
        request_of("selected counts", count * 4),
    ];
    for _ in 0..places {
        requests.push(request_of("keys", count * pitch * 4));
        requests.push(request_of("ids", count * pitch * 8));
    }
    let looked = Looked::new(rows, request.room());
    requests.push(looked.request());
    let scratch = gpu.reserve(&requests).await?;
    let allowed = &scratch[requests.len() - 1];
    looked.upload(allowed).await?;
    let place = |number: usize| select_k::Selected {
        keys: BufferSlice::all(&scratch[4 + 2 * number]),
        ids: BufferSlice::all(&scratch[5 + 2 * number]),
    };
    let count = count as u32;
    let (query_buffer, refused) = (&scratch[0], &scratch[2]);
    queries.copy_to(gpu, numbers, query_buffer).await?;
    gpu.upload_bytes(refused, 0, &[0xff; 8]).await?;

    let mut commands = Commands::new(gpu, profile);
    commands.stage("prepare");
    norms::encode(
        &mut commands,
        &norms::Norms {
            rows: BufferSlice::all(query_buffer),
            elements: ElementKind::F32,
            vectors: rows.vectors(),
            range: [0, count],
            first_number: 0,
            norms: BufferSlice::all(&scratch[1]),
            refused: BufferSlice::all(refused),
        },
    )?;
    let (mut from, mut to) = (0, 1);
    let mut kept = 0;
    for stretch in looked.stretches(chunk_rows) {
        let segment = &rows.segments[stretch.segment];
        commands.stage("rescore");
        let candidates = looked.candidates(stretch, [pitch as u32, kept], allowed);
        let rescoring = rescore::Rescore {
            metric: request.metric,
            queries: BufferSlice::all(query_buffer),
            count,
            rows: segment.rows_slice(),
            elements: rows.layout.elements,
            vectors: rows.vectors(),
            row_count: segment.len,
            first_slot: segment.first_slot,
            ids: BufferSlice::all(&segment.ids),
            candidates,
            keys: place(from).keys,
            found_ids: place(from).ids,
            mark_absent: true,
        };
        rescore::encode(&mut commands, &rescoring)?;
        commands.stage("select");
        let select = select_k::Select {
            keys: place(from).keys,
            ids: Some(place(from).ids),
            floats: false,
            rows: select_k::Rows::Equal { length: kept + stretch.count, pitch: pitch as u32 },
            count,
            k: plan.k,
            selected: place(to),
            selected_pitch: pitch as u32,
            selected_counts: BufferSlice::all(&scratch[3]),
            spare: many.then(|| place(2)),
            scratch: None,
        };
        crate::kernels::selection::encode(&mut commands, &select)?;
        (from, to) = (to, from);
        kept = plan.k;
        commands = commands.submit_and_go_on();
    }
    // Only the first k of each row are wanted, but one copy of all is quicker than one a row while rows are short.
    let (keys, ids) = (place(from).keys.buffer, place(from).ids.buffer);
    let bytes = u64::from(count) * pitch;
    let mut ranges = vec![(refused, 0, 8), (&scratch[3], 0, u64::from(count) * 4)];
    let whole = bytes * 12 <= 1 << 20;
    if whole {
        ranges.push((keys, 0, bytes * 4));
        ranges.push((ids, 0, bytes * 8));
    } else {
        for query in 0..u64::from(count) {
            ranges.push((keys, query * pitch * 4, k * 4));
        }
        for query in 0..u64::from(count) {
            ranges.push((ids, query * pitch * 8, k * 8));
        }
    }
    let parts = commands.read(&ranges).await?;
    numbers.check(&parts[0])?;
    if whole {
        return Ok(Results::new(
            request.metric,
            [k as usize, pitch as usize],
            &parts[2],
            &parts[3],
            &parts[1],
        ));
    }
    let (keys, ids) = parts[2..].split_at(count as usize);
    Ok(Results::new(request.metric, [k as usize; 2], &keys.concat(), &ids.concat(), &parts[1]))
}
