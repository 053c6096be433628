//! An index that follows the changes that a writer makes to its file.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::failed;
use crate::index::common::Resources;
use crate::index::log::opening::{self, Opened};
use crate::index::log::reader::Log;
use crate::index::log::record::LogShape;
use crate::index::log::replay::replay;
use crate::index::saved::kept::Load;

/// An index that follows the changes of a [`Durable`](crate::Durable), in this process or another: made by [`Loader::follow`](crate::Loader::follow).
///
/// It has the index as the file and its log had it at the last [`refresh`](Self::refresh), and is used as that index. It writes nothing, and
/// keeps nobody from writing.
///
/// ```
/// use nearfield::{Device, Durable, Flat, Metric};
/// # let folder = tempfile::tempdir().expect("a folder");
/// # let path = folder.path().join("index.nf");
/// let device = Device::host();
/// let mut index = Durable::create(Flat::builder(&device, Metric::L2, 1).build()?, &path)?;
/// let mut follower = Flat::loader(&device).follow(&path)?;
/// index.add(&[[1.0f32], [2.0]])?;
/// assert!(follower.is_empty());
/// assert!(follower.refresh()?);
/// assert_eq!(follower.ids()?, [0, 1]);
/// # Ok::<(), nearfield::Error>(())
/// ```
#[derive(Debug)]
pub struct Follower<I> {
    index: I,
    path: PathBuf,
    resources: Resources,
    shape: LogShape,
    log: Option<Log>,
    /// Whether the index may have a part of the changes alone.
    is_behind: bool,
}

impl<I> Deref for Follower<I> {
    type Target = I;

    fn deref(&self) -> &I {
        &self.index
    }
}

impl<I: Load> Follower<I> {
    pub(crate) fn of(path: &Path, resources: Resources) -> Result<Self> {
        let path = std::path::absolute(path).map_err(failed(path))?;
        let device = resources.devices.first()?.clone();
        let opened = device.block_on(opening::open(&path, resources.clone()))?;
        let Opened { index, shape, log, .. } = opened;
        Ok(Self { index, path, resources, shape, log, is_behind: false })
    }

    /// Takes the changes that were made since the last call, and says whether there were any. After a checkpoint the file is loaded again.
    ///
    /// # Errors
    /// As [`Loader::load`](crate::Loader::load). The index may have some of the changes then: the next call loads the file again.
    pub fn refresh(&mut self) -> Result<bool> {
        if !self.is_behind && opening::identity(&self.path)? == self.shape.index {
            self.is_behind = true;
            let taken = self.take();
            self.is_behind = taken.is_err();
            // A checkpoint may have emptied the log meanwhile.
            match taken {
                Ok(Some(is_new)) => return Ok(is_new),
                Err(error) if opening::identity(&self.path)? == self.shape.index => return Err(error),
                _ => {}
            }
        }
        *self = Self::of(&self.path, self.resources.clone())?;
        Ok(true)
    }

    /// Takes the changes of the log, and says whether there were any; none where the file has to be loaded.
    fn take(&mut self) -> Result<Option<bool>> {
        let Some(log) = &mut self.log else {
            return Ok((!opening::has_changes(&self.path, self.shape)?).then_some(false));
        };
        if !log.refresh()? {
            return Ok(None);
        }
        if log.records.is_empty() {
            return Ok(Some(false));
        }
        let device = self.index.common().device.clone();
        device.block_on(replay(&mut self.index, log))?;
        Ok(Some(true))
    }
}
