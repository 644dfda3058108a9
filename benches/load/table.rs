//! A Markdown table on stdout.

/// Rows under a head; the first column is text, the others are figures.
pub struct Table {
    rows: Vec<String>,
}

impl Table {
    /// Begins with the names of the columns.
    pub fn new(columns: &[&str]) -> Table {
        let rule = columns.iter().enumerate().map(|(index, _)| if index == 0 { "---" } else { "---:" });
        Table { rows: vec![line(columns.iter().copied()), line(rule)] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: &[String]) {
        self.rows.push(line(cells.iter().map(String::as_str)));
    }

    /// Prints it under a title, with sentences that belong to it.
    pub fn print(&self, title: &str, notes: &[String]) {
        println!("\n### {title}\n");
        for note in notes {
            println!("{note}\n");
        }
        println!("{}", self.rows.join("\n"));
    }
}

fn line<'a>(cells: impl Iterator<Item = &'a str>) -> String {
    let cells: Vec<&str> = cells.collect();
    format!("| {} |", cells.join(" | "))
}
