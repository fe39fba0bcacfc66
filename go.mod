module hvia

go 1.26.8
