//! Formats columns of text without boxes, fitted to a width.

/// A table. The first row is the head.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Text, which may be cut to fit the width.
    Text,
    /// Text that is useless when it is cut.
    Uncut,
    /// Numbers, set to the right.
    Number,
}

/// Text columns are never cut below this.
const WIDTH_MIN: usize = 12;
const GAP: &str = "  ";

impl Grid {
    pub(crate) fn new(head: &[(&str, Column)]) -> Self {
        Self {
            columns: head.iter().map(|(_, column)| *column).collect(),
            rows: vec![head.iter().map(|(title, _)| (*title).to_owned()).collect()],
        }
    }

    pub(crate) fn add_row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, indented, at most `width` characters wide if that can be had.
    pub(crate) fn lines(&self, indent: usize, width: Option<usize>) -> String {
        let widths = self.widths(indent, width);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (position, cell) in row.iter().enumerate() {
                if position > 0 {
                    line.push_str(GAP);
                }
                let cell = truncate(cell, widths[position]);
                let space = " ".repeat(widths[position].saturating_sub(cell.chars().count()));
                if self.columns[position] == Column::Number {
                    line.push_str(&space);
                    line.push_str(&cell);
                } else {
                    line.push_str(&cell);
                    line.push_str(&space);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    fn widths(&self, indent: usize, width: Option<usize>) -> Vec<usize> {
        let longest = |position: usize| {
            self.rows.iter().map(|row| row[position].chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<_> = (0..self.columns.len()).map(longest).collect();
        let gaps = indent + GAP.len() * self.columns.len().saturating_sub(1);
        let Some(space) = width.map(|width| width.saturating_sub(gaps)) else { return widths };
        while widths.iter().sum::<usize>() > space {
            let can_shrink = |position: &usize| {
                self.columns[*position] == Column::Text && widths[*position] > WIDTH_MIN
            };
            let widest = (0..widths.len()).filter(can_shrink).max_by_key(|p| widths[*p]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
        widths
    }
}

/// Returns the text, cut to `width` characters.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept + "…"
}

/// A text broken into lines at spaces; the first one begins with `first`, the others with as many
/// spaces. A word that is too long stays whole, so that it can be copied.
pub(crate) fn wrap(first: &str, text: &str, width: Option<usize>) -> String {
    let indent = first.chars().count();
    let width = width.unwrap_or(usize::MAX);
    let mut wrapped = first.to_owned();
    let mut used = indent;
    for (position, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if position > 0 && used + 1 + length > width {
            wrapped.push('\n');
            wrapped.push_str(&" ".repeat(indent));
            used = indent;
        } else if position > 0 {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += length;
    }
    wrapped + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_fit_the_width() {
        let mut grid =
            Grid::new(&[("NAME", Column::Text), ("ID", Column::Uncut), ("COUNT", Column::Number)]);
        grid.add_row(vec!["a-name-that-is-rather-long".into(), "x".into(), "7".into()]);
        grid.add_row(vec!["b".into(), "identity".into(), "123".into()]);
        insta::assert_snapshot!(grid.lines(2, None), @r"
          NAME                        ID        COUNT
          a-name-that-is-rather-long  x             7
          b                           identity    123
        ");
        insta::assert_snapshot!(grid.lines(2, Some(38)), @r"
          NAME                 ID        COUNT
          a-name-that-is-rat…  x             7
          b                    identity    123
        ");
    }

    #[test]
    fn long_texts_are_wrapped_at_spaces() {
        let text = "a pod asks for topology.kubernetes.io/zone somewhere";
        insta::assert_snapshot!(wrap("  -> ", text, Some(24)), @r"
          -> a pod asks for
             topology.kubernetes.io/zone
             somewhere
        ");
        assert_eq!(wrap("", text, None), format!("{text}\n"));
    }
}
