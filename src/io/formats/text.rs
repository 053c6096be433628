//! Reads rows of numbers from text: one row a line, separated (CSV) or in JSON.

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::memory;
use crate::parallel::*;
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::files::{PositionedFile, failed, mismatch};

/// The most bytes of a line. A damaged file may have no line breaks.
const LONGEST_LINE: u64 = 4 << 20;
/// Bytes of lines between two marks.
const MARK_EVERY: u64 = 1 << 20;
/// Bytes of lines in memory at a time.
const BLOCK: usize = 4 << 20;
/// Bytes of memory that a line takes besides its own.
const LINE: usize = 48;
/// Bytes of lines that a thread parses at a time.
const TASK: usize = 64 << 10;
/// Names of columns that hold ids, in lower case. pandas reads its own column without a name as the last.
const OF_IDS: [&str; 7] = ["id", "ids", "_id", "row_id", "index", "idx", "unnamed: 0"];
/// Names the work in errors about memory.
const PURPOSE: &str = "reading lines of text";
/// The most letters of a field that a message shows.
const SHOWN: usize = 40;

/// How a line holds a row.
#[derive(Debug, Clone, Copy)]
pub(in crate::io) enum Form {
    /// Numbers with a separator between two of them.
    Separated,
    /// An array of JSON, or an object with one.
    Json,
}

/// How the lines of one file hold rows.
#[derive(Debug)]
enum Parser {
    Separated {
        /// None for white space.
        separator: Option<char>,
        /// Whether the first column has no name, under which pandas writes the numbers of rows.
        has_index: bool,
    },
    /// The field with the array, if it was named.
    Json(Option<String>),
}

/// A text file whose lines were counted.
#[derive(Debug)]
pub(in crate::io) struct TextTable {
    pub(in crate::io) path: PathBuf,
    file: PositionedFile,
    parser: Parser,
    pub(in crate::io) has_header: bool,
    pub(in crate::io) rows: usize,
    pub(in crate::io) dim: usize,
    /// Where some rows start, in ascending order, with the first of all.
    marks: Vec<Mark>,
}

/// The start of a row.
#[derive(Debug, Clone, Copy)]
struct Mark {
    row: usize,
    /// Lines before it.
    line: u64,
    offset: u64,
}

impl TextTable {
    /// Counts the lines of a file, and parses the first.
    pub(in crate::io) fn open(
        path: &Path,
        file: PositionedFile,
        form: Form,
        field: Option<String>,
    ) -> Result<Self> {
        memory::check_free(PURPOSE, file.length().min(4 * LONGEST_LINE))?;
        let mut first = Mark { row: 0, line: 0, offset: 0 };
        let mut lines = Lines::new(path, &file, first);
        let Some(line) = lines.next_line()? else {
            return Err(mismatch(path, "a row in each line", "an empty file"));
        };
        let mut parser = match form {
            Form::Separated => {
                let separator = [',', ';', '\t'].into_iter().find(|&one| line.contains(one));
                Parser::Separated { separator, has_index: false }
            }
            Form::Json => Parser::Json(field),
        };
        let has_header = parser.is_header(line);
        if has_header {
            parser.take_header(line).map_err(|found| mismatch(path, "columns of numbers alone", found))?;
            first = lines.mark(0);
            lines.next_line()?;
        }
        let mut values = vec![];
        if lines.line.is_empty() {
            return Err(mismatch(path, "a row in each line", "a header alone"));
        }
        parser.parse(&lines.line, &mut values).map_err(|found| fault(path, lines.number, &found))?;
        let dim = values.len();
        if dim == 0 {
            let found = format!("none in line {}", lines.number);
            return Err(mismatch(path, "rows of dim 1 or more", found));
        }
        // Counts the rows behind the first, and marks some of them.
        let (mut rows, mut marks, mut mark) = (1, vec![first], lines.mark(1));
        while lines.next_line()?.is_some() {
            if mark.offset - marks[marks.len() - 1].offset >= MARK_EVERY {
                marks.push(mark);
            }
            rows += 1;
            mark = lines.mark(rows);
        }
        Ok(Self { path: path.into(), file, parser, has_header, rows, dim, marks })
    }

    /// Reads the rows of `range`, which must lie within the table, into `values`, which has room for them. All threads parse.
    pub(in crate::io) fn read(&self, range: Range<usize>, values: &mut Vec<f32>) -> Result<()> {
        start_threads()?;
        let mark = self.marks[self.marks.partition_point(|mark| mark.row <= range.start) - 1];
        let mut lines = Lines::new(&self.path, &self.file, mark);
        let missing = |row| mismatch(&self.path, format!("{} rows", self.rows), format!("{row} rows"));
        for row in mark.row..range.start {
            lines.next_line()?.ok_or_else(|| missing(row))?;
        }
        let mut row = range.start;
        while row < range.end {
            // Lines, and the numbers of each thread, which may take half as much again as they need.
            memory::check_free(PURPOSE, 4 * self.file.length().min(BLOCK as u64))?;
            let (mut block, mut bytes) = (vec![], 0);
            while row < range.end && bytes < BLOCK {
                bytes += LINE + lines.next_line()?.ok_or_else(|| missing(row))?.len();
                block.push((lines.number, std::mem::take(&mut lines.line)));
                row += 1;
            }
            let lines_each = (block.len() * TASK / bytes).max(1);
            let parsed: Vec<_> = block.par_chunks(lines_each).map(|lines| self.parse(lines)).collect();
            for part in parsed {
                values.extend(part?);
            }
        }
        Ok(())
    }

    /// The numbers of lines, each with its number in the file.
    fn parse(&self, lines: &[(u64, String)]) -> Result<Vec<f32>> {
        // Without a capacity: lines need not be as long as the first.
        let mut values = vec![];
        for (number, line) in lines {
            let before = values.len();
            self.parser.parse(line, &mut values).map_err(|found| fault(&self.path, *number, &found))?;
            let given = values.len() - before;
            if given != self.dim {
                let needed = format!("{} numbers in each line, as in the first", self.dim);
                return Err(mismatch(&self.path, needed, format!("{given} in line {number}")));
            }
        }
        Ok(values)
    }
}

impl Parser {
    /// Whether a first line names columns: no field of it is a number, or its fields are 0, 1, 2 and so on, as pandas numbers
    /// columns without names.
    fn is_header(&self, line: &str) -> bool {
        let Self::Separated { separator, .. } = self else { return false };
        let fields: Vec<_> = fields(line, *separator).collect();
        let has_index = fields.len() > 1 && fields[0].is_empty();
        let names = &fields[usize::from(has_index)..];
        let is_numbered = names.iter().enumerate().all(|(number, name)| *name == number.to_string());
        is_numbered && (has_index || names.len() > 2) || names.iter().all(|name| name.parse::<f32>().is_err())
    }

    /// Takes the names of columns. The error says which is none of a vector: its numbers would be a dimension.
    fn take_header(&mut self, line: &str) -> std::result::Result<(), String> {
        let Self::Separated { separator, has_index } = self else { return Ok(()) };
        let names: Vec<String> = fields(line, *separator).map(str::to_lowercase).collect();
        *has_index = names.len() > 1 && names[0].is_empty();
        match names.iter().find(|name| OF_IDS.contains(&name.as_str())) {
            Some(name) => Err(format!("a column {name:?}, which has no numbers of vectors")),
            None => Ok(()),
        }
    }

    /// Appends the numbers of a line. The error says what was found instead.
    fn parse(&self, line: &str, values: &mut Vec<f32>) -> std::result::Result<(), String> {
        match self {
            Self::Separated { separator, has_index } => {
                for field in fields(line, *separator).skip((*has_index).into()) {
                    let value = field.parse::<f32>().ok().filter(|value| {
                        // Infinity may be written; a number that is too large for f32 is none.
                        !value.is_infinite() || field.trim_start_matches(['+', '-']).starts_with(['i', 'I'])
                    });
                    values.push(value.ok_or_else(|| format!("{:?}", shortened(field)))?);
                }
                Ok(())
            }
            Self::Json(None) if line.trim_start().starts_with('[') => {
                let Ok(parsed) = serde_json::from_str::<Vec<f32>>(line) else {
                    let array: Vec<Value> = serde_json::from_str(line).map_err(|error| not_json(&error))?;
                    return numbers(&array, values);
                };
                if let Some(place) = parsed.iter().position(|value| value.is_infinite()) {
                    return Err(format!("a number too large for float32 as number {place}"));
                }
                values.extend(parsed);
                Ok(())
            }
            Self::Json(field) => {
                let object: Map<String, Value> =
                    serde_json::from_str(line).map_err(|error| not_json(&error))?;
                let array = match field {
                    Some(field) => object.get(field).and_then(Value::as_array),
                    None => {
                        let mut arrays = object.values().filter_map(Value::as_array);
                        arrays.next().filter(|_| arrays.next().is_none())
                    }
                };
                let array = array.ok_or_else(|| {
                    let names: Vec<_> = object.keys().map(|name| shortened(name)).take(8).collect();
                    let names = names.join(", ");
                    match field {
                        Some(field) => format!("no array {field} among the fields {names}"),
                        None => format!("not one array among the fields {names} (FILE:FIELD names one)"),
                    }
                })?;
                numbers(array, values)
            }
        }
    }
}

/// Describes why a line does not parse as JSON.
fn not_json(error: &serde_json::Error) -> String {
    let found = match error.classify() {
        Category::Data => "neither an array nor an object",
        _ if error.to_string().contains("out of range") => "a number too large for float32",
        _ => "text that is no JSON",
    };
    format!("{found} at column {}", error.column())
}

/// Appends the numbers of an array. The error says what was found instead.
fn numbers(array: &[Value], values: &mut Vec<f32>) -> std::result::Result<(), String> {
    for value in array {
        let number = value.as_f64().map(|number| number as f32).filter(|number| number.is_finite());
        values.push(number.ok_or_else(|| shortened(&value.to_string()))?);
    }
    Ok(())
}

/// The fields of a line, without quotes and white space around them.
fn fields(line: &str, separator: Option<char>) -> impl Iterator<Item = &str> {
    let is_separator = move |letter: char| match separator {
        Some(separator) => letter == separator,
        None => letter.is_ascii_whitespace(),
    };
    line.trim_matches(' ')
        .split(is_separator)
        .filter(move |field| separator.is_some() || !field.is_empty())
        .map(|field| {
            let field = field.trim();
            field.strip_prefix('"').and_then(|field| field.strip_suffix('"')).unwrap_or(field).trim()
        })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The lines of a file from a mark on.
struct Lines {
    path: PathBuf,
    reader: BufReader<PositionedFile>,
    /// The current line, without its break.
    line: String,
    /// The number of the current line, from 1 on.
    number: u64,
    offset: u64,
}

impl Lines {
    fn new(path: &Path, file: &PositionedFile, from: Mark) -> Self {
        let reader = BufReader::with_capacity(1 << 16, file.clone().at(from.offset));
        Self { path: path.into(), reader, line: String::new(), number: from.line, offset: from.offset }
    }

    /// Where the next line starts.
    fn mark(&self, row: usize) -> Mark {
        Mark { row, line: self.number, offset: self.offset }
    }

    /// Reads the next line. Empty lines may only be at the end.
    fn next_line(&mut self) -> Result<Option<&str>> {
        if self.read()? == 0 {
            return Ok(None);
        }
        if self.line.is_empty() {
            let number = self.number;
            while self.read()? > 0 {
                if !self.line.is_empty() {
                    let found = format!("none in line {number}");
                    return Err(mismatch(&self.path, "a row in each line", found));
                }
            }
            return Ok(None);
        }
        Ok(Some(&self.line))
    }

    /// Reads a line, without white space at its ends, and returns its bytes in the file.
    fn read(&mut self) -> Result<usize> {
        let mut bytes = std::mem::take(&mut self.line).into_bytes();
        bytes.clear();
        let read = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes);
        let read = read.map_err(failed(&self.path))?;
        if read as u64 > LONGEST_LINE {
            let needed = format!("lines of at most {LONGEST_LINE} bytes");
            return Err(mismatch(&self.path, needed, format!("a longer line {}", self.number + 1)));
        }
        self.offset += read as u64;
        self.number += u64::from(read > 0);
        // Programs for spreadsheets put a mark in front of the text.
        let start = if self.number == 1 && bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let end = bytes.len() - bytes.iter().rev().take_while(|byte| b"\r\n \t".contains(byte)).count();
        // A tab at the end may be a separator, behind which a field is missing.
        let tabs = bytes[end.max(start)..].contains(&b'\t');
        bytes.truncate(end.max(start));
        bytes.drain(..start);
        if tabs && !bytes.is_empty() {
            bytes.push(b'\t');
        }
        self.line = String::from_utf8(bytes)
            .map_err(|_| fault(&self.path, self.number, "bytes that are no UTF-8"))?;
        Ok(read)
    }
}

/// The error for what was found in a line.
fn fault(path: &Path, line: u64, found: &str) -> Error {
    mismatch(path, "a row of numbers in each line", format!("{found} in line {line}"))
}
